# .ci/setup finds or fetches everything needed; see there for how. Written for GNU make 3.81,
# the version on macOS.

GOLANGCI_LINT_VERSION := v2.15.0
SQLC_VERSION := v1.31.1
# The newest version that Go 1.26 can build from modules on the public proxy.
GORELEASER_VERSION := v2.15.1
GOVULNCHECK_VERSION := v1.9.0

BIN := .tools/bin
# The version is part of the name, so that a new version is installed and an old one is never
# used by mistake.
GOLANGCI_LINT := $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION)
SQLC := $(BIN)/sqlc-$(SQLC_VERSION)
GORELEASER := $(BIN)/goreleaser-$(GORELEASER_VERSION)
GOVULNCHECK := $(BIN)/govulncheck-$(GOVULNCHECK_VERSION)

ARGS ?=
BENCH ?= .
# How many times gobench runs each benchmark: benchstat needs 10 to tell a change from noise.
COUNT ?= 1
# Long enough to get past a target's seed corpus; raise it to search in earnest.
FUZZTIME ?= 10s
ROUNDS ?= 10
MIXED ?= 1m

.DEFAULT_GOAL := help
.PHONY: vulnerabilities help run test lint fmt bench gobench fuzz kill upgrade generate notices check-generated check-release release load build clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

# exec leaves one process fewer between Ctrl-C and the program.
run: ## Start a whole shop on http://127.0.0.1:8080 (ARGS="--listen :8080 …" is passed on)
	@exec .ci/setup run $(ARGS)

test: ## Run every test with the race detector (TESTFLAGS="-run X -v …" is passed on)
	@exec .ci/setup test

# Compiled as the image's program is, which the tests start: its objects are compiled once.
lint vulnerabilities $(GOLANGCI_LINT) $(GOVULNCHECK): export GOFLAGS := -trimpath $(GOFLAGS)
lint vulnerabilities $(GOLANGCI_LINT) $(GOVULNCHECK): export CGO_ENABLED := 0

lint: $(GOLANGCI_LINT) ## Check formatting, go vet, golangci-lint and known vulnerabilities
	@.ci/setup go
	@bad=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
		if [ -n "$$bad" ]; then echo "not formatted (make fmt repairs them):" $$bad; exit 1; fi
	go mod tidy -diff
	go vet ./...
	$(GOLANGCI_LINT) run --timeout 15m ./...
	@$(MAKE) -s vulnerabilities

# govulncheck exits with 3 for findings, and with 1 where its database, https://vuln.go.dev, is out of reach.
vulnerabilities:
	@if ! $(MAKE) -s $(GOVULNCHECK); then echo "govulncheck cannot be built here: known vulnerabilities were not checked"; exit 0; fi; \
		status=0; $(GOVULNCHECK) ./... || status=$$?; case $$status in 0) ;; 3) exit 1 ;; \
		*) echo "the vulnerability database cannot be reached here: known vulnerabilities were not checked" ;; esac

fmt: $(GOLANGCI_LINT) ## Format the code as lint wants it
	$(GOLANGCI_LINT) fmt ./...

# With ARGS only the selected stages: the second table shows Go benchmarks, each beside its baseline.
bench: build ## Measure each stage beside a bare baseline on this machine (ARGS="--stages whole …" is passed on)
	@.ci/setup exec $(BIN)/stampede bench $(ARGS)
	@$(if $(ARGS),,.ci/setup exec go test -run '^$$' -bench '^Benchmark(Decision|Publish|Writer)$$' -count 3 ./inventory ./seckill/rush ./order 2>&1 | awk '\
		/^Benchmark/ { split($$1, name, "[/-]"); sub("Benchmark", "", name[1]); sum[name[1], name[2]] += $$(NF-1); unit[name[1]] = $$NF } \
		/^(FAIL|panic|---)/ { print; failed = 1 } \
		END { printf "\n%-10s %12s %12s %6s\n", "BENCHMARK", "BASELINE/s", "OURS/s", "RATIO"; \
			for (n in unit) printf "%-10s %12.0f %12.0f %6.2f  %s\n", n, sum[n, "baseline"] / 3, sum[n, "ours"] / 3, sum[n, "ours"] / sum[n, "baseline"], unit[n]; exit failed }')

gobench: ## Run the Go benchmarks, fit for benchstat (BENCH=regexp chooses, COUNT=10 repeats)
	@exec .ci/setup exec go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./...

# go test fuzzes one target of one package at a time. One Postgres and one Redis serve them all: a worker that starts its own
# has spent the time before its first input, and leaves servers that keep the pipe open on which go test waits for its end.
fuzz: ## Run every fuzz target for FUZZTIME each (default 10s)
	@.ci/setup exec go run ./platform/workshop/pgtest/servers sh -eu -c ' \
		git ls-files -co --exclude-standard "*_test.go" | xargs grep -oE "^func Fuzz[A-Za-z0-9_]+" /dev/null | \
		sed "s/:func / /" | while read -r file target; do \
			echo "$$target in $$(dirname "$$file") for $(FUZZTIME)"; \
			go test -run "^$$" -fuzz "^$$target\$$" -fuzztime "$(FUZZTIME)" "./$$(dirname "$$file")" </dev/null || exit 1; \
		done'

# Every scenario kills real processes; one runs per core at a time.
kill: ## Kill the server at every named point in ROUNDS rounds (default 10), restart it, prove the books
	@.ci/setup exec go test -count=1 -timeout 0 -v -run '^TestKillPoints$$' ./platform/workshop/shop/kill -killpoints.rounds=$(ROUNDS) $(TESTFLAGS)

upgrade: ## Sell for MIXED (default 1m) with the last release and this program side by side, forth and back
	@.ci/setup exec go test -count=1 -timeout 0 -v -run '^TestRollingUpgradeAndBack$$' ./platform/workshop/shop/kill -upgrade.mixed=$(MIXED)

generate: $(SQLC) ## Regenerate the sqlc code, the scripts of the shop's pages, the OpenAPI document and the golden files
	$(SQLC) generate -f platform/store/pg/sqlc.yaml
	STAMPEDE_UPDATE_GOLDEN=1 go test -count=1 -run 'Golden|ServedRoutes' ./seckill/shop . ./seckill/rush

notices: ## Write the licences of every module in the program to .tools/THIRD_PARTY_NOTICES.txt
	@.ci/setup go
	@mkdir -p .tools
	@.ci/notices > .tools/THIRD_PARTY_NOTICES.txt

check-generated: generate ## Generate and fail if that leaves changes that are not committed
	@if [ -n "$$(git status --porcelain)" ]; then \
		git status --short; git --no-pager diff --stat; \
		echo "the tree differs from the last commit: commit what make generate wrote"; exit 1; \
	fi

# Not part of lint: to build goreleaser takes as much disk and time as the other linters together.
check-release: $(GORELEASER) ## Check how a release is made (.goreleaser.yaml)
	@$(GORELEASER) check --quiet && echo ".goreleaser.yaml is valid"

release: $(GORELEASER) ## Publish the tag that is checked out: archives, checksums, SBOMs, images
	$(GORELEASER) release --clean

load: build ## Play shoppers against the running make run (ARGS are passed to stampede rush --demo)
	@exec $(BIN)/stampede rush --demo $(ARGS)

build: ## Build the program into .tools/bin
	@.ci/setup go
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o $(BIN)/stampede .

clean: ## Remove everything that was fetched or built here (data in ./data stays)
	rm -rf .tools

# All are built from source with the dependencies that their own go.sum pins.
$(GOLANGCI_LINT):
	@.ci/setup go
	@echo "building golangci-lint $(GOLANGCI_LINT_VERSION), this takes some minutes the first time"
	@mkdir -p $(BIN)/new
	GOBIN="$(CURDIR)/$(BIN)/new" go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv $(BIN)/new/golangci-lint $@

$(SQLC):
	@.ci/setup go
	@echo "building sqlc $(SQLC_VERSION), this takes some minutes the first time"
	@mkdir -p $(BIN)/new
	GOBIN="$(CURDIR)/$(BIN)/new" go install github.com/sqlc-dev/sqlc/cmd/sqlc@$(SQLC_VERSION)
	@mv $(BIN)/new/sqlc $@

$(GOVULNCHECK):
	@.ci/setup go
	@mkdir -p $(BIN)/new
	GOBIN="$(CURDIR)/$(BIN)/new" go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	@mv $(BIN)/new/govulncheck $@

$(GORELEASER):
	@.ci/setup go
	@echo "building goreleaser $(GORELEASER_VERSION), this takes some minutes the first time"
	@mkdir -p $(BIN)/new
	GOBIN="$(CURDIR)/$(BIN)/new" go install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
	@mv $(BIN)/new/goreleaser $@
