.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: serve
serve: ## Run a server on 127.0.0.1:8080 with the embedded store
	go run ./cmd/leasehold serve

.PHONY: build
build: ## Build bin/leasehold, static, without cgo
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o bin/leasehold ./cmd/leasehold

.PHONY: lambda
lambda: ## Build bootstrap and queues in bin/lambda, for provided.al2023 on arm64: make lambda, or make lambda ARCH=amd64
	$(lambda) -o bin/lambda/bootstrap -tags lambda.norpc,leasehold.noprofiles,leasehold.noqueues ./functions/aws/lambda
	$(lambda) -o bin/lambda/queues -tags lambda.norpc,leasehold.noprofiles ./functions/aws/lambda

lambda = CGO_ENABLED=0 GOOS=linux GOARCH=$(or $(ARCH),arm64) go build -trimpath -ldflags "-s -w"

.PHONY: release
release: ## Make the files of a release in dist/: make release VERSION=v1.2.3 KEY=FILE, which signs it; DIRTY=1 builds changes that are in no commit
	go run -C release . $(if $(DIRTY),-dirty) $(signing) "$(VERSION)"

.PHONY: sign
sign: ## Sign a release that was made before: make sign VERSION=v1.2.3 KEY=FILE; or SIGN_COMMAND=COMMAND and KEY=FILE with its public key
	go run -C release . $(signing) -sign "dist/$(VERSION)"

signing = $(if $(KEY),-key "$(KEY)") $(if $(SIGN_COMMAND),-sign-command '$(SIGN_COMMAND)')

.PHONY: verify-release
verify-release: ## Make them again and compare: make verify-release VERSION=v1.2.3 SUMS=FILE, a list of checksums of a download
	go run -C release . $(if $(DIRTY),-dirty) -verify $(or $(SUMS),dist/$(VERSION)/SHA256SUMS) "$(VERSION)"

# The images of Dockerfile and cloudbuild.yaml: name and version, and their digest if they have one.
images = sed -nE 's/.*(name: |ARG GOLANG=)([a-z0-9./-]+:[a-z0-9.-]+)(@[a-z0-9:]+)?.*/\2/p' Dockerfile cloudbuild.yaml | sort -u

.PHONY: pin-images
pin-images: ## Write the digests of the images that build a release into Dockerfile and cloudbuild.yaml; asks their registries
	set -e; for image in $$($(images)); do \
	  digest=$$(go -C release tool gcrane digest "$$image"); \
	  for file in Dockerfile cloudbuild.yaml; do \
	    sed -E "s|$$image(@[a-z0-9:]+)?|$$image@$$digest|" "$$file" >"$$file.pinned" && cat "$$file.pinned" >"$$file"; \
	    rm "$$file.pinned"; \
	  done; \
	done

.PHONY: test
test: ## Run all tests
	go test ./...

.PHONY: nightly
nightly: ## Run the jobs that take too long for make ci, each within its budget; make nightly JOB=race runs one
	.ci/nightly $(JOB)

.PHONY: nightly-state
nightly-state: ## Print when each job of make nightly was last green; fails unless each was within seven days
	.ci/nightly --state

.PHONY: lines
lines: ## Print how many lines are product, and how many are tests and proof
	.ci/lines

.PHONY: race
race: ## Run all tests under the race detector
	go test -race ./...

# A shell's own RANDOM does not count.
mutants = $(strip $(if $(RUN),-run '$(RUN)') $(if $(PACKAGE),-package '$(PACKAGE)') \
  $(if $(findstring command,$(origin RANDOM)),-random $(RANDOM)) $(if $(SEED),-seed $(SEED)) \
  $(if $(CHANGED),-changed '$(CHANGED)') $(if $(BUDGET),-budget $(BUDGET)))

.PHONY: mutants
mutants: ## Run tests with each fault of proof/mutants/faults: none may survive; make mutants RUN='^lock/' tries some, RANDOM=100 SEED=7 PACKAGE=./repo/lock draws others
	go run ./proof/mutants $(mutants)

.PHONY: faults
faults: ## Put faults to Leasehold: a million operations in virtual time, every order of small worlds, and real processes that are killed, frozen and replaced
	go run ./cmd/leasehold prove --operations $(or $(OPERATIONS),1000000)
	go run ./cmd/leasehold prove --every
	go test ./tests -count=1 -run 'Chaos|KillNine|OfProcesses|FrozenProcess|Shutdown|Rolling|HeldBack|GivenUp|StopsAndGoesOn|^TestDamage'

.PHONY: bench
bench: ## Run the benchmarks
	go test ./... -run '^$$' -bench . -benchmem
	go test -C tests/bench -run '^$$' -bench . -benchmem

.PHONY: costs
costs: ## Print what operations cost and what stores carry; make costs UPDATE=1 writes it into docs/
	go test ./tests/cost -run 'TestCosts|TestScaling' -count=1 -v $(if $(UPDATE),-update)

.PHONY: peers
peers: ## Measure Leasehold beside etcd and others, and write the tables of docs/internals/performance.md
	go -C tests/peers run . -write ../../docs/internals/performance.md

.PHONY: faults-beside
faults-beside: ## Put the same faults to Leasehold and to others, and write the tables of docs/internals/faults.md (first: make ci STEP=tools)
	go -C tests/peers run . -faults -write ../../docs/internals/faults.md

.PHONY: soak
soak: ## Keep one server busy, and fail if it grows: make soak MINUTES=60; REDIS=HOST:PORT in place of a file
	LEASEHOLD_SOAK_MINUTES=$(or $(MINUTES),3) LEASEHOLD_SOAK_REDIS=$(REDIS) \
	  go test ./tests -run '^TestSoak$$' -v -count=1 -timeout 0

.PHONY: fuzz
fuzz: ## Fuzz each target for half a minute: make fuzz, or make fuzz TIME=10m
	@grep -rlE '^func Fuzz' --include='*_test.go' . | sort | while read -r file; do \
	  for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' "$$file"); do \
	    go test "./$$(dirname "$$file")" -run '^$$' -fuzz "^$$target\$$" -fuzztime "$(or $(TIME),30s)" || exit 1; \
	  done; \
	done

.PHONY: generate
generate: ## Regenerate files after a change of contracts/openapi.yaml, of the console or the demonstration, of IDs, of settings, of commands or of Terraform modules
	go generate ./contracts/... ./console ./cmd/leasehold/internal/demo
	go test ./functions/settings ./cmd/leasehold -run 'TestDocumentation|TestTerraform$$' -update
	go -C infra/tests generate ./...

.PHONY: verify
verify: generate ## Check that generated files, formatting and go.mod are up to date
	git diff --exit-code
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet ./...
	go mod tidy -diff
	go -C tests/bench mod tidy -diff
	go -C tests/peers mod tidy -diff
	go -C tests/console mod tidy -diff
	go -C examples/fences mod tidy -diff
	go -C examples/durable mod tidy -diff
	go -C examples/frameworks mod tidy -diff
	go -C release mod tidy -diff
	go -C infra/tests mod tidy -diff

.PHONY: ci
ci: ## Run the checks that a change must pass; make ci STEP=linter runs one of them, or of those of make nightly
	.ci/run $(STEP)
