name                     = "locks"
table_name               = "locks-table"
kms_key_arn              = "arn:aws:kms:eu-north-1:123456789012:key/0000"
package                  = "package.zip"
versions                 = { api = "7" }
front_door               = "http-api"
jwt                      = { issuer = "https://issuer.example", audience = ["leasehold"] }
throttle                 = { rate = 50, burst = 100 }
analyses                 = true
batch_size               = 5
max_receives             = 24
queue_retention_days     = 7
max_message_age          = 1800
api_timeout              = 60
worker_timeout           = 600
sweep_timeout            = 90
sweep_minutes            = 10
memory_size              = { api = 512, worker = 1024, sweep = 128 }
concurrency              = { api = 50, worker = 20, sweep = 2 }
audit_retention_days     = 400
audit_kms_key_arn        = "arn:aws:kms:eu-north-1:123456789012:key/99999999-9999-9999-9999-999999999999"
log_retention_days       = 90
log_kms_key_arn          = "arn:aws:kms:eu-north-1:123456789012:key/1111"
permissions_boundary_arn = "arn:aws:iam::123456789012:policy/boundary"
alarm_topic_arns         = ["arn:aws:sns:eu-north-1:123456789012:alarms"]
metrics_alarms           = true
budget                   = { monthly_usd = 50, emails = ["operations@example.com"], tag = "user:Service$locks" }
tags                     = { Team = "platform" }

settings = {
  LEASEHOLD_LOG_LEVEL                  = "warn"
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
  LEASEHOLD_LOG_SAMPLE                 = 10
  LEASEHOLD_METRICS_EMF                = true
  LEASEHOLD_RETENTION                  = "240h"
  LEASEHOLD_STATE_RETENTION            = "8760h"
  LEASEHOLD_RECORD_REFUSALS            = "1m"
  LEASEHOLD_MAX_SKEW                   = "200ms"
  LEASEHOLD_INDEX_SHARDS               = 8
  LEASEHOLD_AUTH_ISSUER                = "https://issuer.example"
  LEASEHOLD_AUTH_AUDIENCE              = "leasehold"
  LEASEHOLD_AUTH_CLIENTS               = "client-a,client-b"
  LEASEHOLD_AUTH_JWKS_URL              = "https://issuer.example/keys"
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
  LEASEHOLD_ID_SERVICES                = "[{\"serviceId\":\"orders\"}]"
  LEASEHOLD_ID_SERVICES_CLOSED         = true
  LEASEHOLD_ID_MAX_LEASES              = 100
  LEASEHOLD_ID_MAX_LEASES_PER_SUBJECT  = 10
  LEASEHOLD_QUEUE_TENANT_SEPARATOR     = "/"
  LEASEHOLD_TARGET_URL                 = "https://target.example.com/run"
  LEASEHOLD_TARGET_AUDIENCE            = "work"
  LEASEHOLD_TTL                        = "2m"
  LEASEHOLD_HEARTBEAT                  = "20s"
  LEASEHOLD_MAX_FAILURES               = 6
  LEASEHOLD_TASK_GRACE                 = "20s"
  LEASEHOLD_ON_LOCKED                  = "retry"
  LEASEHOLD_CREATE_ANALYSES            = true
  LEASEHOLD_MAX_TAKEOVERS              = 4
  LEASEHOLD_REQUEUE_EVERY              = "10m"
  LEASEHOLD_SWEEP_GRACE                = "1m"
}
audit_locked = true
