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
log_level                = "warn"
audit_retention_days     = 400
audit_kms_key_arn        = "arn:aws:kms:eu-north-1:123456789012:key/99999999-9999-9999-9999-999999999999"
log_retention_days       = 90
log_kms_key_arn          = "arn:aws:kms:eu-north-1:123456789012:key/1111"
permissions_boundary_arn = "arn:aws:iam::123456789012:policy/boundary"
alarm_topic_arns         = ["arn:aws:sns:eu-north-1:123456789012:alarms"]
metrics_alarms           = true
budget                   = { monthly_usd = 50, emails = ["operations@example.com"], tag = "user:Service$locks" }
tags                     = { Team = "platform" }

console                    = true
cors_origins               = ["https://app.example.com"]
request_timeout            = "5s"
max_concurrent             = 100
max_wait                   = "2s"
max_waiting                = 200
tenant_rate                = 100
subject_rate               = 20
rate_without_store         = "refuse"
max_locks_per_tenant       = 1000
max_runs_per_tenant        = 2000
max_clusters_per_tenant    = 3
max_identities_per_cluster = 4000
log_sample                 = 10
metrics_emf                = true
retention                  = "240h"
state_retention            = "8760h"
record_refusals            = "1m"
max_skew                   = "200ms"
index_shards               = 8
auth_issuer                = "https://issuer.example"
auth_audience              = "leasehold"
auth_clients               = ["client-a", "client-b"]
auth_jwks_url              = "https://issuer.example/keys"
auth_tenant_claim          = "org"
auth_required_scope        = "leasehold"
auth_admin_scope           = "leasehold.admin"
auth_admins                = ["alice"]
auth_operate_scope         = "leasehold.operate"
auth_operators             = ["dave"]
auth_worker_scope          = "leasehold.worker"
auth_workers               = ["bob"]
auth_id_scope              = "leasehold.ids"
auth_id_subjects           = ["carol"]
auth_leeway                = "30s"
id_services                = "[{\"serviceId\":\"orders\"}]"
id_services_closed         = true
id_max_leases              = 100
id_max_leases_per_subject  = 10
queue_tenant_separator     = "/"
target_url                 = "https://target.example.com/run"
target_audience            = "work"
ttl                        = "2m"
heartbeat                  = "20s"
max_failures               = 6
task_grace                 = "20s"
on_locked                  = "retry"
create_analyses            = true
max_takeovers              = 4
requeue_every              = "10m"
sweep_grace                = "1m"
