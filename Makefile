# make help lists the targets.
SHELL       := /bin/sh
.DEFAULT_GOAL := help
GO          ?= go
TOOLS       := $(CURDIR)/.tools
LINT        := $(TOOLS)/bin/golangci-lint
LINT_VERSION := v2.15.0
ACTIONLINT  := $(TOOLS)/bin/actionlint
ACTIONLINT_VERSION := v1.7.12
VERSION     ?= $(shell git describe --tags --match 'v[0-9]*' --always --dirty 2>/dev/null || echo dev)
COMMIT      ?= $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS     := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

.PHONY: help demo stack build test check lint bench torture fuzz engines docs clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Without optimisation the first build on a new machine takes half the time.
# DOCGAUGE_SINKS=parquet,clickhouse make demo writes to ClickHouse too: the one
# of DOCGAUGE_CLICKHOUSE_DSN, or without that a temporary one.
demo: ## export a month from the built-in sandbox into Parquet files (needs only Go)
	@echo 'building (a minute or two the first time)'
	@CGO_ENABLED=0 $(GO) build -gcflags='all=-N -l' -ldflags='-s -w' -o bin/docgauge-demo ./cmd/docgauge
	@case "$$DOCGAUGE_SINKS,$$DOCGAUGE_CLICKHOUSE_DSN$$DOCGAUGE_CLICKHOUSE_DSN_FILE" in \
	  *clickhouse*,) $(GO) run ./internal/dev/engines/with bin/docgauge-demo demo ;; \
	  *) bin/docgauge-demo demo ;; esac

# STACK='--dir DIR' keeps the data. What cannot be installed is left out.
stack: build ## everything on loopback: sandbox, agent jobs, serve, ClickHouse, Prometheus with rules and history
	-@sh internal/dev/engines/install.sh
	@$(GO) build -o bin/docgauge-stack ./internal/dev/stack/up && exec bin/docgauge-stack $(STACK)

build: ## build the static binary bin/docgauge
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/docgauge ./cmd/docgauge

test: engines ## install what is missing and run every test
	$(GO) test -timeout 40m ./...

check: lint test race demo ## what CI runs: lint, every test, the race detector, the demo

race: ## the concurrent packages under the race detector
	$(GO) test -timeout 40m -short -race ./internal/archive ./internal/budget ./internal/export ./internal/spool ./internal/docsapi ./internal/load ./sinks/memsink ./exporter ./exporter/server ./exporter/page ./schedule ./internal/jobs/... ./internal/sandbox/...
	$(GO) test -timeout 40m -short -race -run 'TestScrapesDuringExport|TestKey|TestSinkGoes|TestStateIsLost|TestRunTimeout' ./internal/cli
	$(GO) test -timeout 40m -race -run 'Contract|Window' ./sinks/parquet
	$(GO) test -timeout 40m -race -run 'TestContract/18.16|Attempt|Migrations' ./sinks/clickhouse
.PHONY: race

lint: $(LINT) $(ACTIONLINT) ## golangci-lint, actionlint and go mod tidy
	$(LINT) run ./...
	$(ACTIONLINT)
	$(GO) mod tidy -diff

$(LINT): Makefile
	@mkdir -p $(TOOLS)/bin
	GOBIN=$(TOOLS)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@touch $(LINT)

actionlint: $(ACTIONLINT) # the files of .github/workflows
	$(ACTIONLINT)
.PHONY: actionlint

$(ACTIONLINT):
	@mkdir -p $(TOOLS)/bin
	GOBIN=$(TOOLS)/bin $(GO) install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)

engines: # what the tests run against: ClickHouse, ZooKeeper, an S3 server, DuckDB, pyarrow
	@sh sinks/parquet/testdata/install-readers.sh
	@sh internal/dev/engines/install.sh

report: ## write bin/report.html, a report of a sandbox with agent jobs
	@CGO_ENABLED=0 $(GO) build -ldflags='-s -w' -o bin/docgauge-demo ./cmd/docgauge
	@sh internal/report/testdata/demo.sh bin/docgauge-demo bin/report.html
	@echo "file://$(CURDIR)/bin/report.html"
.PHONY: report

bench: ## speed, memory and requests, against a plain sequential client; the economy of live services
	$(GO) run ./internal/dev/bench
	@$(MAKE) --no-print-directory economy

economy: # simulated days of live services, in a few minutes
	@mkdir -p bin
	@$(GO) test -count=1 -timeout 30m -run 'TestEconomy$$' -v ./internal/export -economy > bin/economy.txt || { cat bin/economy.txt; exit 1; }
	@sed -n 's/.*TABLE //p' bin/economy.txt
.PHONY: economy

torture: ## kill the real binary 320 times and compare every row and agent job; the simulated year; clusters
	$(GO) test -count=1 -timeout 30m -run 'TestTorture$$' -v ./internal/cli -torture 200
	$(GO) test -count=1 -timeout 40m -run TestTortureJobs -v ./internal/cli -torture 120
	$(GO) test -count=1 -timeout 40m -run TestYear -v ./internal/export -long
	$(GO) test -count=1 -timeout 40m -run TestCluster -v ./sinks/clickhouse -long

fuzz: ## each fuzz target for 30 seconds
	@for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 30s $$p || exit 1; done; done

docs: ## write the generated parts of the documentation
	$(GO) test ./internal/cli -run TestREADME -update
	$(GO) test ./exporter -run TestDocumentation -update
	$(GO) test ./dashboards -run TestFiles -update
	$(GO) test ./deploy -run 'TestHelmGolden|TestHelmNotes' -update

# SOURCE_DATE_EPOCH, the commit's time, is that of every file: two builds of a
# commit with one version of Go are the same bytes.
release: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
release: ## archives for Linux and macOS, bills of materials and checksums, in dist
	rm -rf dist
	$(GO) run ./internal/dev/release -version '$(VERSION)' -commit '$(COMMIT)' -out dist
.PHONY: release

chart: ## package the Helm chart with its rules and dashboards into dist (needs helm)
	helm package --destination dist deploy/helm/docgauge
.PHONY: chart

clean: ## remove what was built
	rm -rf bin dist
