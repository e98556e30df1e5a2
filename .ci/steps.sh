# The steps that check Leasehold: a function each. .ci/run and .ci/deep source this file; CONTRIBUTING.md says which of them carries out what.
# A step runs in a shell of its own. What it does not check for lack of a tool it says with `skipped`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

golangci=v2.15.0
govulncheck=v1.8.0
tools=$PWD/.ci/tmp
mkdir -p "$tools"
export GOFLAGS="${GOFLAGS:-} -buildvcs=false"
modules="tests/bench tests/peers tests/console tests/telemetry examples/fences examples/durable release infra/tests"
here=$(go env GOOS)/$(go env GOARCH)

# What a change must pass.
quick=(tools format tests model previous generated linter vulnerabilities openapi typescript python console telemetry durable race servers databases release terraform)
# All of it, at full size. Steps with the same subject are here instead of those above, and do what those do and more: tests and race are parts of
# race_all. The longest is the last.
whole=(tools format model previous generated linter vulnerabilities openapi typescript python console telemetry durable busy servers_deep databases properties
  race_busy race_all release_all terraform_apply peers bench fuzz mutants)

times=$(mktemp)
notes=$(mktemp) # what was skipped
failed=()

# check runs steps. The first that fails ends everything, unless go_on is set; then its name is added to failed.
go_on=
check() {
  local step began code
  for step in "$@"; do
    declare -F "step_$step" >/dev/null || { echo "no step is named $step; the steps are: $(steps)" >&2; exit 2; }
  done
  for step in "$@"; do
    began=$SECONDS
    printf '\n== %s (%ss)\n' "$step" "$SECONDS"
    set +e
    (
      set -e
      trap stop EXIT
      "step_$step"
    )
    code=$?
    set -e
    printf '%6d s  %-6s  %s\n' "$((SECONDS - began))" "$([ "$code" = 0 ] && echo ok || echo FAILED)" "$step" >>"$times"
    after_step
    [ "$code" = 0 ] && continue
    printf '\n== FAILED in the step: %s\n' "$step"
    failed+=("$step")
    [ -n "$go_on" ] || break
  done
  printf '\n== slowest steps of %d s\n' "$SECONDS"
  sort -rn "$times"
  [ ! -s "$notes" ] || { printf '\n== not checked\n'; cat "$notes"; }
  [ "${#failed[@]}" = 0 ] || printf '\n== FAILED in the step: %s\n' "${failed[*]}"
}
after_step() { :; }
steps() { declare -F | sed -n 's/^declare -f step_//p' | tr '\n' ' '; }

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
  local unformatted module target
  unformatted=$(gofmt -l $(git ls-files '*.go'))
  [ -z "$unformatted" ] || { printf 'gofmt would change:\n%s\n' "$unformatted"; exit 1; }
  go vet ./...
  for module in $modules; do go -C "$module" vet ./...; done
  for target in linux/amd64 linux/arm64 darwin/arm64 windows/amd64; do
    GOOS=${target%/*} GOARCH=${target#*/} go vet ./locks/projectlock # it has files for each system
  done
}

# The README's command, as a reader would give it.
step_tests() { go test ./...; }

# Every order of the steps of a lock, in Promela; and with faults, which it must find.
step_model() { proof/model/run.sh; }

# The version before, on one store with this one, in both directions.
step_previous() {
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

step_linter() {
  local module
  "$tools/golangci-lint" run ./...
  for module in $modules; do (cd "$module" && "$tools/golangci-lint" run ./...); done
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

# The OpenAPI linter; generators and a mock server that others wrote.
step_openapi() {
  REDOCLY_TELEMETRY=off "$tools/node_modules/.bin/redocly" lint --config .redocly.yaml contracts/openapi*.yaml
  .ci/openapi/run "$tools"
}

# Types, scripts, a real server, two tabs of a browser.
step_typescript() { .ci/sdk/typescript; }

# Types, scripts, a real server.
step_python() { .ci/sdk/python; }

# Headless Chromium, axe-core.
step_console() { go test -C tests/console -count=1 -timeout 20m ./...; }

# The receiver of an OpenTelemetry collector.
step_telemetry() { go test -C tests/telemetry -count=1 ./...; }

# An example: Lambda durable functions.
step_durable() { go test -C examples/durable -count=1 ./...; }

# The suites while every core is busy. Under the race detector it is the step race_busy.
step_busy() {
  busy_cores
  go test -count=1 -timeout 10m ./tests -run '^Test(Locks|Analyses|MachineIDs|Ambiguous)'
  go test -count=1 -timeout 10m ./repo/... ./once/... ./kazahana/...
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

# The packages whose tests use servers that others wrote, and with them the rules on every store.
step_servers() {
  others
  go test -timeout 20m $(users_of_servers)
}
users_of_servers() {
  local starters
  starters=$(go list -f '{{.ImportPath}} {{join .Imports " "}}' ./... | awk '/\/emulator\/internal\/external( |$)|\/dynoxide / { print $1 }')
  go list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... | grep -wF "$starters" | cut -d ' ' -f 1
}

# What runs on stores in tests; the step properties runs it with more checks.
stores='OnStores$'

# Every test once more, at full size and with those servers.
step_servers_deep() {
  others
  LEASEHOLD_TEST_DEEP=1 go test -timeout 30m ./... -skip "$stores"
}

# with_programs lists the packages, but tests, that put random programs to the test.
with_programs() {
  go list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... |
    awk '/ (pgregory.net\/rapid|[^ ]*\/docstoretest|[^ ]*\/internal\/suite)/ && $1 !~ /\/tests$/ { print $1 }'
}

step_properties() {
  others
  export LEASEHOLD_TEST_DEEP=1
  go test -count=1 -timeout 20m $(with_programs) -rapid.checks=300
  go test -count=1 -timeout 20m ./tests -run "$stores" -rapid.checks=300
}

# Fences of PostgreSQL and MariaDB, and with the SDKs of object stores.
step_databases() { .ci/databases/run "$tools"; }

# Faults that the tests must notice, those of the clients in TypeScript and Python, too.
step_mutants() { go run ./proof/mutants; }

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

# A release for Linux and this system, made twice; files for builds and containers.
step_release() { go test -C release -count=1 -timeout 30m ./...; }

# A release for four systems.
step_release_all() {
  LEASEHOLD_TEST_PLATFORMS=linux/amd64,linux/arm64,darwin/arm64,windows/amd64 go test -C release -count=1 -timeout 30m ./...
}

# Terraform modules are planned, without an account.
step_terraform() {
  go test -C infra/tests -count=1 -parallel 3 -timeout 20m -v ./... >"$tools/infra.log" 2>&1 || { cat "$tools/infra.log"; exit 1; }
  grep -E 'SKIPPED|mistakes are found|(applied|used|destroyed) after|^ok' "$tools/infra.log" || true
  grep -h SKIPPED "$tools/infra.log" | sed 's/^ *//' >>"$notes" || true # what was not checked for lack of a tool
}

# With moto_server the modules are also applied, the programs run on what is there, and it is destroyed: a test that mostly waits, beside two others.
step_terraform_apply() {
  export LEASEHOLD_TEST_SERVERS=1
  step_terraform
}

# The race detector: what runs at once in one process. Random programs send one command after the other, so a few of each are enough; checks of
# checks, and tests of processes that were built without the detector, say nothing about races. The step race_all leaves out none.
not_raced='Test(Modes|Locks|LockSets|Analyses|Runs|Placements)$/^programs$|OfProcesses|AgreesWithTheOracle|EveryExpiry|HasTeeth|ClocksApart|Interpreted|SizeOf|EdgesOfValues|WaitPrograms|LeavesNothingOut'
raced_suites() {
  go test -race -count=1 -timeout 20m ./tests -run '^Test(Locks|Analyses|MachineIDs|Placements|Modes|Ambiguous|Chaos)' -skip "$not_raced" -rapid.checks=5
}
step_race() {
  raced_suites
  go test -race -count=1 -timeout 20m $(with_programs) -skip "$not_raced" -rapid.checks=5
  go test -race -count=1 -timeout 20m $(go list ./... | grep -v '/tests$' | grep -vxF "$(with_programs)") -skip "$not_raced"
}

# The suites of ./tests under the race detector, while every core is busy.
step_race_busy() {
  busy_cores
  raced_suites
}

step_race_all() { LEASEHOLD_TEST_SERVERS=1 go test -race -count=1 -timeout 60m ./...; }
