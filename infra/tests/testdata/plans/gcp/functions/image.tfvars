project               = "my-project-1"
region                = "europe-west1"
name                  = "locks"
database              = "locks-database"
labels                = { team = "platform" }
enable_services       = false
image                 = "europe-west1-docker.pkg.dev/my-project-1/leasehold/leasehold@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
api_public            = false
api_invokers          = ["serviceAccount:web@my-project-1.iam.gserviceaccount.com"]
api_ingress           = "internal-and-load-balancer"
target_token_secret   = "target-token"
queue                 = { max_concurrent = 20, max_per_second = 10, max_attempts = 100, min_backoff = "10s", max_backoff = "120s" }
producers             = ["serviceAccount:jobs@my-project-1.iam.gserviceaccount.com"]
sweep_schedule        = "*/5 * * * *"
api_scaling           = { min_instances = 1, max_instances = 5, concurrency = 40, cpu = 2, memory_mib = 1024 }
tasks_scaling         = { min_instances = 0, max_instances = 4, concurrency = 20, cpu = 1, memory_mib = 512 }
notification_channels = ["projects/my-project-1/notificationChannels/1"]
otlp_endpoint         = "http://collector:4318"
metrics_alerts        = true

auth_issuer          = "https://login.example.com"
auth_audience        = "https://locks.example.com"
audit_retention_days = 400

settings = {
  LEASEHOLD_AUTH_CLIENTS               = "client-a,client-b"
  LEASEHOLD_AUTH_JWKS_URL              = "https://login.example.com/keys"
  LEASEHOLD_AUTH_TENANT_CLAIM          = "org"
  LEASEHOLD_AUTH_REQUIRED_SCOPE        = "leasehold"
  LEASEHOLD_AUTH_ADMIN_SCOPE           = "leasehold.admin"
  LEASEHOLD_AUTH_ADMINS                = "alice"
  LEASEHOLD_AUTH_OPERATE_SCOPE         = "leasehold.operate"
  LEASEHOLD_AUTH_OPERATORS             = "dave"
  LEASEHOLD_AUTH_WORKER_SCOPE          = "leasehold.worker"
  LEASEHOLD_AUTH_WORKERS               = "bob"
  LEASEHOLD_AUTH_ID_SCOPE              = "leasehold.ids"
  LEASEHOLD_AUTH_ID_SUBJECTS           = "carol"
  LEASEHOLD_AUTH_LEEWAY                = "30s"
  LEASEHOLD_BASE_PATH                  = "/leasehold"
  LEASEHOLD_CONSOLE                    = true
  LEASEHOLD_CORS_ORIGINS               = "https://app.example.com"
  LEASEHOLD_REQUEST_TIMEOUT            = "5s"
  LEASEHOLD_MAX_CONCURRENT             = 100
  LEASEHOLD_MAX_WAIT                   = "2s"
  LEASEHOLD_MAX_WAITING                = 200
  LEASEHOLD_TENANT_RATE                = 100
  LEASEHOLD_SUBJECT_RATE               = 20
  LEASEHOLD_RATE_WITHOUT_STORE         = "refuse"
  LEASEHOLD_MAX_LOCKS_PER_TENANT       = 1000
  LEASEHOLD_MAX_RUNS_PER_TENANT        = 2000
  LEASEHOLD_MAX_CLUSTERS_PER_TENANT    = 3
  LEASEHOLD_MAX_IDENTITIES_PER_CLUSTER = 4000
  LEASEHOLD_LOG_LEVEL                  = "warn"
  LEASEHOLD_LOG_SAMPLE                 = 10
  LEASEHOLD_RETENTION                  = "240h"
  LEASEHOLD_STATE_RETENTION            = "8760h"
  LEASEHOLD_RECORD_REFUSALS            = "1m"
  LEASEHOLD_ROOT                       = "locks"
  LEASEHOLD_FIRESTORE_INDEX_SHARDS     = 8
  LEASEHOLD_ID_SERVICES                = "[{\"serviceId\":\"orders\"}]"
  LEASEHOLD_ID_SERVICES_CLOSED         = true
  LEASEHOLD_ID_MAX_LEASES              = 100
  LEASEHOLD_ID_MAX_LEASES_PER_SUBJECT  = 10
  LEASEHOLD_TARGET_URL                 = "https://target.example.com/run"
  LEASEHOLD_TTL                        = "2m"
  LEASEHOLD_HEARTBEAT                  = "20s"
  LEASEHOLD_MAX_FAILURES               = 6
  LEASEHOLD_TASK_GRACE                 = "20s"
  LEASEHOLD_ON_LOCKED                  = "retry"
  LEASEHOLD_CREATE_ANALYSES            = true
  LEASEHOLD_TASK_TIMEOUT               = "20m"
  LEASEHOLD_MAX_TAKEOVERS              = 4
  LEASEHOLD_REQUEUE_EVERY              = "10m"
  LEASEHOLD_SWEEP_GRACE                = "1m"
}
audit_locked = true
