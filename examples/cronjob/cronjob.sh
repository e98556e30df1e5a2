#!/bin/sh
# A job that several machines have in their crontabs, and that must run once a night. Run it in a clone with
#
#	sh examples/cronjob/cronjob.sh
#
# In a crontab it is the one line
#
#	5,35 * * * *  leasehold once nightly-report --at 02:00 --tz Europe/Berlin --skip -q -- /usr/local/bin/report
#
# with LEASEHOLD_SERVER set. Here three of them start at once, on a store in a file instead of a server: one
# runs the job, and the others say nothing, as cron would send that as a mail. One that is late does nothing, either.
set -eu
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
command -v leasehold >/dev/null || go build -o "$folder/leasehold" ./cmd/leasehold
PATH=$folder:$PATH

cat >"$folder/report" <<'REPORT'
#!/bin/sh
echo "$1 runs the job with the token $LEASEHOLD_FENCING_TOKEN"
sleep 1
echo "$1 is done"
REPORT
chmod +x "$folder/report"

machine() { # due so seldom that no next time comes while the example runs
  leasehold once nightly-report --every 8000h --skip -q --store sqlite --data "$folder/data" -- "$folder/report" "$1"
}
machine alpha &
machine bravo &
machine charlie &
wait
