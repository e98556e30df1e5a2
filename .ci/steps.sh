# The steps that check Leasehold: a function each. .ci/run and .ci/nightly source this file; CONTRIBUTING.md says which of them carries out what.
# A step runs in a shell of its own. What it does not check, for lack of a tool or because nothing of it changed, it says with `skipped`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

golangci=v2.15.0
govulncheck=v1.8.0
actionlint=v1.7.12
tools=$PWD/.ci/tmp
mkdir -p "$tools"
# What is compiled is compiled once: without paths of this machine, so that Go finds it in another folder, too; without cgo, as releases are; and go test's
# own vet is the linter's, which has all of it.
export GOFLAGS="${GOFLAGS:-} -buildvcs=false -trimpath -vet=off" CGO_ENABLED=0
modules="tests/bench tests/peers tests/console tests/telemetry examples/fences examples/durable examples/frameworks release infra/tests"

# What runs leave behind for those after them: which commit was green, and when each nightly job last was.
state=${LEASEHOLD_CI_STATE:-${XDG_STATE_HOME:-${HOME:-/tmp}/.local/state}/leasehold-ci}

times=$(mktemp)
notes=$(mktemp) # what was not looked at
failed=()

# check runs steps, and those whose names a + joins side by side: steps that mostly keep one core busy. What runs beside
# something else ignores interrupts, so a step that tests them runs alone. The first that fails ends everything.
check() {
  local group step code pids logs i
  for step in ${*//+/ }; do
    declare -F "step_$step" >/dev/null || { echo "no step is named $step; the steps are: $(steps)" >&2; exit 2; }
  done
  for group in "$@"; do
    printf '\n== %s (%ss)\n' "$group" "$SECONDS"
    set +e
    if [ "${group/+/}" = "$group" ]; then
      carry_out "$group"
      code=$?
    else
      pids=() logs=() code=0
      trap 'trap "" TERM; kill 0; exit 130' INT # which the shell keeps from what it runs beside itself
      for step in ${group//+/ }; do
        logs+=("$(mktemp)")
        carry_out "$step" >"${logs[-1]}" 2>&1 &
        pids+=("$!")
      done
      for i in "${!pids[@]}"; do
        wait "${pids[i]}" || code=1
        cat "${logs[i]}"
        rm -f "${logs[i]}"
      done
      trap - INT
    fi
    set -e
    [ "$code" = 0 ] && continue
    mapfile -t failed < <(awk '$(NF - 1) == "FAILED" { print $NF }' "$times")
    [ "${#failed[@]}" != 0 ] || failed=("$group") # it was ended before it could say so
    printf '\n== FAILED in the step: %s\n' "${failed[*]}"
    break
  done
  printf '\n== slowest steps of %d s; what each kept processors busy for\n' "$SECONDS"
  sort -rn "$times"
  [ ! -s "$notes" ] || { printf '\n== not looked at\n'; cat "$notes"; }
  [ "${#failed[@]}" = 0 ] || printf '\n== FAILED in the step: %s\n' "${failed[*]}"
}

# carry_out runs a step in a shell of its own, and writes down what became of it. It fails if the step does.
carry_out() (
  self=$BASHPID began=$SECONDS all=$notes notes=$(mktemp) result=ok
  set +e
  (
    set -e
    trap stop EXIT
    "step_$1"
  )
  code=$?
  [ ! -s "$notes" ] || result=partly         # the notes say what was not looked at
  [ "$code" != 3 ] || { result='-' code=0; } # nothing was
  [ "$code" = 0 ] || result=FAILED
  cat "$notes" >>"$all"
  rm -f "$notes"
  printf '%6d s %6d s  %-6s  %s\n' "$((SECONDS - began))" "$(busy "$self")" "$result" "$1" >>"$times"
  [ "$code" = 0 ]
)

# busy is for how many seconds the processes that a shell has waited for kept processors busy, where the system says so.
busy() { awk -v hertz="$(getconf CLK_TCK)" '{ seconds = ($16 + $17) / hertz } END { print int(seconds) }' "/proc/$1/stat" 2>/dev/null || echo 0; }

steps() { declare -F | sed -n 's/^declare -f step_//p' | tr '\n' ' '; }

# since is the commit from which on the gate looks for changes: the last one that was green here; without one, that of a day before. It is empty where
# everything is to be looked at.
since=
since() {
  if [ -s "$state/green" ] && git cat-file -e "$(cat "$state/green")^{commit}" 2>/dev/null; then
    cat "$state/green"
  else
    git rev-list -1 --before="$(($(git log -1 --format=%ct) - 86400))" HEAD 2>/dev/null || true
  fi
}
# changed reports whether one of the paths has changed since then.
changed() { [ -z "$since" ] || ! git diff --quiet "$since" -- "$@" 2>/dev/null || [ -n "$(git status --porcelain -- "$@" 2>/dev/null)" ]; }
# unless_changed ends the step as one that looked at nothing, where none of the paths has changed.
unless_changed() {
  changed "$@" || { skipped "$*: no change since $(git log -1 --format='%h of %cs' "$since"), so not looked at; .ci/nightly does"; exit 3; }
}

skipped() {
  echo "!! $*"
  echo "$*" >>"$notes"
}

background=()
stop() {
  for pid in ${background[@]+"${background[@]}"}; do kill "$pid" 2>/dev/null || true; done
}

# busy_cores keeps every core busy until the step ends.
busy_cores() {
  for _ in $(seq "$(nproc)"); do
    sh -c 'while :; do :; done' &
    background+=("$!")
  done
}

updated=
need() { # command, package
  command -v "$1" >/dev/null && return
  [ -n "$updated" ] || { apt-get update -qq && updated=1; }
  apt-get install -y -qq "$2"
}

# What the steps need beyond Go: the linter and govulncheck as Go modules, the OpenAPI linter, another DynamoDB and Powertools as npm packages, Redis, etcd,
# PostgreSQL, MariaDB, Node, Python, mypy, Chromium (for the clients), two shells (for completion), groff and mandoc (for manual pages), promtool (for
# alerts), spin and gcc (for the model) as Debian packages. npm packages are those of lock files, by their hashes, and their scripts are not run.
step_tools() {
  need python3 python3
  need redis-server redis-server
  need etcd etcd-server
  need node nodejs
  need npm npm
  compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || need initdb postgresql
  need mariadbd mariadb-server
  /usr/bin/python3 -c 'import psycopg' 2>/dev/null || need psycopg python3-psycopg
  need zsh zsh
  need fish fish
  need groff groff
  need mandoc mandoc
  need promtool prometheus
  need spin spin
  need gcc gcc
  need chromium chromium
  cp .ci/npm/package.json .ci/npm/package-lock.json "$tools"
  (cd "$tools" && npm ci --silent --no-audit --no-fund --ignore-scripts)
  if ! "$tools/golangci-lint" version 2>/dev/null | grep -q "${golangci#v}"; then
    GOBIN=$tools go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$golangci"
  fi
  redis-server --version
}

step_format() {
  local unformatted
  unformatted=$(gofmt -l $(git ls-files '*.go'))
  [ -z "$unformatted" ] || { printf 'gofmt would change:\n%s\n' "$unformatted"; exit 1; }
}

# Packages with files for each system.
step_systems() {
  local target
  for target in linux/amd64 linux/arm64 darwin/arm64 windows/amd64; do
    GOOS=${target%/*} GOARCH=${target#*/} go vet ./locks/projectlock ./cmd/leasehold
  done
}

# The README's command, as a reader would give it.
step_tests() { go test ./...; }

# Every order of the steps of a lock, in Promela; and with faults, which it must find.
step_model() {
  unless_changed proof/model repo/lock/rule.go
  proof/model/run.sh
}

# The version before, on one store with this one, in both directions. There is none before the first tag.
step_previous() {
  [ -n "$(git tag --list 'v*')" ] || { skipped 'previous: no version is tagged, so there is none to run beside this one'; exit 3; }
  LEASEHOLD_TEST_PREVIOUS=1 go test -count=1 -timeout 20m ./tests -run '^TestNeighbours$' -v >"$tools/previous.log" 2>&1 ||
    { cat "$tools/previous.log"; exit 1; }
  grep -E 'SKIPPED|beside|^ok' "$tools/previous.log" || true
  grep -h SKIPPED "$tools/previous.log" | sed 's/^ *//' >>"$notes" || true # what was not checked for lack of history
}

step_generated() {
  local before module
  before=$(git diff | sha256sum)
  go generate ./... 2>&1 | grep -v '^WARNING: You are using an OpenAPI 3.1' || true
  [ "$(git diff | sha256sum)" = "$before" ] || { git diff --stat; echo "generated files are out of date: make generate"; exit 1; }
  go mod tidy -diff
  go mod verify
  for module in $modules; do go -C "$module" mod tidy -diff; done
  cmp "$tools/node_modules/preact/dist/preact.mjs" console/src/vendor/preact.js
  cmp "$tools/node_modules/htm/dist/htm.module.js" console/src/vendor/htm.js
}

# All linters, vet among them. Modules that have not changed wait for the night.
step_linter() {
  local module waiting=
  "$tools/golangci-lint" run ./...
  for module in $modules; do
    if changed "$module" .golangci.yaml; then
      (cd "$module" && "$tools/golangci-lint" run ./...)
    else
      waiting+=" $module"
    fi
  done
  [ -z "$waiting" ] || skipped "linter: no change in$waiting"
}

step_vulnerabilities() {
  local vulndb=${GOVULNDB:-https://vuln.go.dev} # a mirror or a file:// URL works too
  if timeout 20 python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1] + "/index/db.json", timeout=10)' "$vulndb" 2>/dev/null; then
    [ -x "$tools/govulncheck" ] && "$tools/govulncheck" -version 2>/dev/null | grep -q "govulncheck@$govulncheck" ||
      GOBIN=$tools go install "golang.org/x/vuln/cmd/govulncheck@$govulncheck"
    timeout 600 "$tools/govulncheck" -db "$vulndb" ./...
  else
    skipped "govulncheck: SKIPPED, its database $vulndb cannot be reached; known vulnerabilities were NOT looked for. Set GOVULNDB to a mirror"
  fi
}

# The workflows of GitHub: their syntax, their expressions, and with shellcheck their commands, where it is there.
step_workflows() {
  unless_changed .github
  "$tools/actionlint" -version 2>/dev/null | grep -q "${actionlint#v}" ||
    GOBIN=$tools go install "github.com/rhysd/actionlint/cmd/actionlint@$actionlint"
  "$tools/actionlint" .github/workflows/*.yml
}

# The OpenAPI linter; generators and a mock server that others wrote.
step_openapi() {
  unless_changed contracts .ci/openapi .ci/npm
  REDOCLY_TELEMETRY=off "$tools/node_modules/.bin/redocly" lint --config .redocly.yaml contracts/openapi*.yaml
  .ci/openapi/run "$tools"
}

# Types, scripts, a real server, two tabs of a browser.
step_typescript() {
  unless_changed sdk/typescript contracts .ci/sdk/typescript
  .ci/sdk/typescript
}

# Types, scripts, a real server.
step_python() {
  unless_changed sdk/python contracts .ci/sdk/python
  .ci/sdk/python
}

# Headless Chromium, axe-core. Nothing that is asked of the browser waits for more than a minute, so that one that hangs is told with its test.
step_console() {
  unless_changed console tests/console cmd/leasehold/internal/demo cmd/leasehold/internal/process
  go test -C tests/console -count=1 -timeout 8m ./...
}

# The receiver of an OpenTelemetry collector.
step_telemetry() {
  unless_changed tests/telemetry infra/observability functions/otlp functions/metrics functions/telemetry cmd/leasehold/internal/export
  go test -C tests/telemetry -count=1 ./...
}

# An example: Lambda durable functions.
step_durable() {
  unless_changed examples/durable once
  go test -C examples/durable -count=1 ./...
}

# An example: the middleware for requests with an Idempotency-Key, in other frameworks than net/http.
step_frameworks() {
  unless_changed examples/frameworks idempotency
  go test -C examples/frameworks -count=1 ./...
}

# others starts the servers that tests do not start themselves, says what is missing, and lets tests use them all.
others() {
  local port dynoxide=$tools/node_modules/@dynoxide/linux-x64/dynoxide
  if [ -x "$dynoxide" ]; then
    port=$(go run ./.ci/freeport)
    "$dynoxide" --host 127.0.0.1 --port "$port" >"$tools/dynoxide.log" 2>&1 &
    background+=("$!")
    export DYNAMODB_ENDPOINT=http://127.0.0.1:$port
    echo "DynamoDB: $("$dynoxide" --version) on $DYNAMODB_ENDPOINT"
  else
    skipped "DynamoDB: no other server for this kind of machine; the differential tests are skipped"
  fi
  if compgen -G '/usr/lib/google-cloud-sdk/platform/cloud-firestore-emulator/*.jar' ||
    compgen -G '/opt/google-cloud-sdk/platform/cloud-firestore-emulator/*.jar' ||
    compgen -G "${CLOUDSDK_ROOT_DIR:-/none}/platform/cloud-firestore-emulator/*.jar"; then
    echo "Firestore: the tests start the official emulator"
  elif [ -n "${FIRESTORE_EMULATOR_HOST:-}" ]; then
    echo "Firestore: the official emulator on $FIRESTORE_EMULATOR_HOST"
  else
    skipped "Firestore: NO OFFICIAL EMULATOR on this machine; the differential tests against it are skipped"
  fi
  if command -v moto_server >/dev/null; then
    echo "SQS: the tests start moto_server"
  else
    skipped "SQS: no moto_server on this machine; the differential tests against it are skipped"
  fi
  export LEASEHOLD_TEST_SERVERS=1
}

# What starts servers that others wrote, of the adapters and emulators. Their other tests need none, and are in the step tests: of those for Redis only
# what runs on its stand-in can be told apart.
step_servers() {
  local package found all='' starter
  others
  for package in $(go list ./adapters/... ./emulator/... ./repo/docstore/...); do
    found=$(starts_servers "$(go list -f '{{.Dir}}' "$package")")
    all+=" $found"
    case $found in
      '') ;;
      *redistest*) go test -skip '/^miniredis$|//^miniredis$' "$package" ;;
      *) go test -run "^($(cut -d' ' -f1 <<<"$found" | paste -sd '|'))\$" "$package" ;;
    esac
  done
  for starter in $starters; do
    grep -qF "$starter" <<<"$all" || { echo "no test was found that calls $starter"; exit 1; }
  done
}
# starts_servers prints which tests of a folder call one of the starters, and which one.
starters='redistest.Each official.Start moto.Start dynoxide.Endpoint'
starts_servers() {
  compgen -G "$1/*_test.go" >/dev/null || return 0
  cat "$1"/*_test.go | awk -v starters="$starters" 'BEGIN { n = split(starters, starter, " ") }
    /^func Test/ { test = $2; sub(/\(.*/, "", test) }
    { for (i = 1; i <= n; i++) if (index($0, starter[i] "(") && !seen[test, i]++) print test, starter[i] }'
}

# Every rule on every store, everything at full size, and with those servers.
step_stores() {
  others
  LEASEHOLD_TEST_DEEP=1 go test -timeout 50m ./...
}

# More random programs.
step_properties() {
  others
  LEASEHOLD_TEST_DEEP=1 go test -count=1 -timeout 40m $(with_programs) -rapid.checks=300
}
with_programs() {
  go list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... |
    awk '/ (pgregory.net\/rapid|[^ ]*\/docstoretest|[^ ]*\/proof\/suite)/ && $1 !~ /\/tests$/ { print $1 }'
}

# A seventh of the packages that touch time, processes or sockets, fifty times in a row with every core kept busy: all of them in a week. AGAIN names others.
step_again() {
  local package
  busy_cores
  for package in ${AGAIN:-$(waiting | awk -v day="$(date +%j)" 'NR % 7 == day % 7')}; do
    echo "fifty times: $package"
    go test -timeout 30m -count=50 -failfast "$package"
  done
}
# waiting lists the packages whose tests touch time, processes or sockets.
waiting() {
  go list -f '{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... |
    awk '/ (time|net|net\/http|os\/exec|testing\/synctest)( |$)/ && $1 !~ /\/(tests|examples\/.*)$/ { print $1 }'
}

# Fences of PostgreSQL and MariaDB, and with the SDKs of object stores; the SQL of the guide of idempotency.
step_databases() {
  unless_changed examples/fences fence .ci/databases docs/guides/idempotency.md sdk/typescript/test/databases
  .ci/databases/run "$tools"
}

# typescript_modules installs what the tests of the client in TypeScript need.
typescript_modules() { [ -x sdk/typescript/node_modules/.bin/esbuild ] || (cd sdk/typescript && npm ci --silent --no-audit --no-fund --ignore-scripts); }

# Faults that the tests must notice, those of the clients in TypeScript and Python, too.
step_mutants() {
  typescript_modules
  go run ./proof/mutants
}

# Of those in files that have changed a hundred that the day draws, for two minutes; the tool says how many it did not come to.
step_mutants_changed() {
  typescript_modules
  [ -n "$since" ] || { skipped 'mutants_changed: there is no commit to compare with; .ci/nightly tries all faults'; exit 3; }
  go run ./proof/mutants -changed "$since" -most 100 -seed "$(date +%Y%m%d)" -budget 2m >"$tools/mutants.log" ||
    { grep -v '^not tried' "$tools/mutants.log"; exit 1; }
  grep -v '^not tried' "$tools/mutants.log"
  ! grep -qE 'budget was spent|are tried, of' "$tools/mutants.log" ||
    skipped "mutants_changed: $(grep -E 'budget was spent|are tried, of' "$tools/mutants.log" | paste -sd ';')"
}

# A seventh of the lists, all of them in a week, and a hundred that the tool draws.
step_mutants_night() {
  typescript_modules
  go run ./proof/mutants -part "$(($(date +%s) / 86400 % 7 + 1))/7"
  go run ./proof/mutants -random 100 -seed "$(date +%Y%m%d)" -budget 40m
}

# A little of each target.
step_fuzz() {
  local file target
  grep -rlE '^func Fuzz' --include='*_test.go' . | sort | while read -r file; do
    for target in $(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' "$file"); do
      # Counted, not timed: a fuzzing run that is ended by its time now and then fails for that alone.
      go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime 5000x
    done
  done
}

# Benchmarks run; no time is judged.
step_bench() {
  go test ./... -run '^$' -bench . -benchtime 10x
  go test -C tests/bench ./... -bench . -benchtime 10x
}

# Each peer does a little; requests are counted, and no time is judged. The storm of docs/guides/idempotency.md, with one key for each of its lines.
step_peers() { go test -C tests/peers -count=1 -timeout 20m ./...; }

# A release for Linux on amd64 and this system; files for builds and containers.
step_release() {
  unless_changed release Dockerfile cloudbuild.yaml .gcloudignore .dockerignore go.mod
  go test -C release -count=1 -short -timeout 30m ./...
  skipped 'release: made once, and not for other systems; .ci/nightly makes it twice, for four'
}

# A release for four systems, made twice.
step_release_all() {
  LEASEHOLD_TEST_PLATFORMS=linux/amd64,linux/arm64,darwin/arm64,windows/amd64 go test -C release -count=1 -timeout 30m ./...
}

# Terraform modules are planned, without an account.
step_terraform() {
  unless_changed infra functions/settings functions/aws functions/gcp
  terraform_tests -short
}
terraform_tests() {
  go test -C infra/tests -count=1 -parallel 3 -timeout 20m -v "$@" ./... >"$tools/infra.log" 2>&1 || { cat "$tools/infra.log"; exit 1; }
  grep -E 'SKIPPED|mistakes are found|(applied|used|destroyed) after|^ok' "$tools/infra.log" || true
  grep -h SKIPPED "$tools/infra.log" | sed 's/^ *//' >>"$notes" || true # what was not checked: for lack of a tool, or in the gate
}

# Mistakes in the modules are found, too. With moto_server these are applied, the programs run on what is there, and it is destroyed: a test that mostly
# waits, beside two others.
step_terraform_apply() {
  export LEASEHOLD_TEST_SERVERS=1
  terraform_tests
}

# The race detector, in the packages in which most happens at once. Every test is in race_all.
step_race() {
  export CGO_ENABLED=1 # the race detector needs it
  go test -race -short -timeout 15m ./cluster ./functions/tasks ./idempotency ./internal/... ./kazahana ./locks ./once ./repo/docstore ./repo/rates ./repo/rule
  go test -race -short -timeout 15m ./repo/lock -run 'HandOver|Watch|Deliver|GiveUp|GivenUp'
}
step_race_all() { CGO_ENABLED=1 LEASEHOLD_TEST_SERVERS=1 go test -race -count=1 -timeout 60m ./...; }
