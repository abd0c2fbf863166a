# make help lists the targets.
SHELL       := /bin/sh
.DEFAULT_GOAL := help
GO          ?= go
TOOLS       := $(CURDIR)/.tools
LINT        := $(TOOLS)/bin/golangci-lint
LINT_VERSION := v2.15.0
ACTIONLINT  := $(TOOLS)/bin/actionlint
ACTIONLINT_VERSION := v1.7.12
GORELEASER  := $(TOOLS)/bin/goreleaser
GORELEASER_VERSION := v2.15.1
VERSION     ?= $(shell git describe --tags --match 'v[0-9]*' --always --dirty 2>/dev/null || echo dev)
COMMIT      ?= $(shell git rev-parse HEAD 2>/dev/null)
BRANCH      ?= $(shell git rev-parse --abbrev-ref HEAD 2>/dev/null)
BUILD       := github.com/prometheus/common/version
LDFLAGS     := -s -w -X $(BUILD).Version=$(VERSION) -X $(BUILD).Revision=$(COMMIT) -X $(BUILD).Branch=$(BRANCH)
# Tests, the linter and the workshop are compiled without cgo, as docgauge is: so
# they share all compiled packages. Only the race detector needs cgo.
export CGO_ENABLED ?= 0
# Every docgauge here is compiled with the same flags, so that build, demo, stack and
# tests compile each package once; only releases and the container have -trimpath.
BINARY      := bin/docgauge
# The docgauge that tests and the workshop run, without a version.
TEST_BINARY := bin/docgauge-test
DEMO_BINARY := $(BINARY)
# Many tests wait, for engines or for time: four packages, or three and beside them two under the race detector, keep
# two cores busy. `make lint` vets everything, and nobody debugs these binaries, which link faster without symbols.
GOTEST      := TEST_DOCGAUGE_BINARY=$(CURDIR)/$(TEST_BINARY) $(GO) test -vet=off -ldflags=-s -timeout 40m
# The slowest packages come first, so that none of them runs alone at the end.
SLOWEST     := ./internal/cli ./sinks/clickhouse ./internal/site/runner ./internal/dev/stack ./internal/dev/warehouse \
  ./internal/web ./sinks/postgres ./internal/sandbox ./sinks/parquet
# The tests of these packages run under the race detector.
RACED       := ./exporter ./exporter/remotewrite ./internal/web/server ./internal/app ./internal/budget ./internal/daemon \
  ./internal/docsapi ./internal/events ./internal/mcp ./internal/codehost ./internal/sandbox/... ./internal/spool ./schedule
# Of the sinks, the window files and the pages, the tests in which several goroutines meet: the
# cases of the contract by name, below an engine of ClickHouse, of PostgreSQL, or none.
CONCURRENT  := many_windows|reader|cancelled
RACEDALONE  := TestContract/(18.16|15|$(CONCURRENT))/($(CONCURRENT))|ContractBucket/($(CONCURRENT))|Window|AttemptsGrow|MigrationsAtOnce|Writers|Stall|Terminated
RACEDALONE  := $(RACEDALONE)|TestWrittenAtOnce|TestHandlerRendersOnce|TestArchiveIsAskedByFew
# Of the export: runs with several requests in flight, cut by a budget, refused, killed, and beside a real service.
RACEDEXPORT := TestManyFaults|TestResume|TestGuesses|TestSameDays|TestBadService|AfterARefusedKey|TestAskedWindows

.PHONY: help demo stack build test check lint bench torture fuzz engines docs dashboards clean $(TEST_BINARY) $(BINARY)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# DOCGAUGE_SINKS=parquet,delta,clickhouse,postgres make demo writes to all four: to the
# servers of their DSNs, or without those to temporary ones.
demo: ## export three months from the built-in sandbox into Parquet files (needs only Go)
	@$(MAKE) --no-print-directory $(DEMO_BINARY)
	@case "$$DOCGAUGE_SINKS" in \
	  *clickhouse*|*postgres*) $(GO) run ./internal/dev/stack with $(DEMO_BINARY) demo ;; \
	  *) $(DEMO_BINARY) demo ;; esac

build: $(BINARY) ## build the static binary bin/docgauge

$(BINARY):
	@echo 'building $@ (a few minutes the first time)'
	@CGO_ENABLED=0 $(GO) build -ldflags '$(LDFLAGS)' -o $@ ./cmd/docgauge

$(TEST_BINARY):
	@CGO_ENABLED=0 $(GO) build -o $@ ./cmd/docgauge

# STACK='--dir DIR' keeps the data. What cannot be installed is left out.
stack: ## everything on loopback: sandbox, agent jobs, serve, ClickHouse, Prometheus with rules and history
	@sh internal/dev/engines/install.sh stack || echo 'going on without what was not installed'
	@echo 'building $(TEST_BINARY) and the stack (a few minutes the first time)'
	@$(MAKE) --no-print-directory $(TEST_BINARY)
	@$(GO) build -o bin/docgauge-stack ./internal/dev/stack
	@exec bin/docgauge-stack -docgauge $(TEST_BINARY) $(STACK)

# Tests of raced packages that run without the race detector, which makes them ten times
# slower: browsers, and processes that are killed, which could not report a race.
UNRACEDRUNS := TestBrowser|TestKilledWhileProposing|TestKilledInTheMiddle|TestKilledWhileAccepting
# The raced packages that have tests of these names: what is skipped there runs here.
UNRACEDTOO  := ./internal/sandbox ./internal/daemon ./internal/budget

# `make test`: with -short, tests that call engines.Long are skipped. `make check` runs them, and every other test:
# the concurrent packages under the race detector, all others without it. The race detector makes many scrapers too
# slow, too. Steps that end in & run beside those after them, one after the other: see internal/dev/steps.
define READY
$(MAKE) --no-print-directory engines
$(MAKE) --no-print-directory $(TEST_BINARY)
endef
define QUICK
$(GOTEST) -short -p 4 $$($(GO) list $(SLOWEST) ./...)
endef
define UNRACED
$(GOTEST) -p 2 -run '$(UNRACEDRUNS)|TestScrapesDuringExport|TestNeverMoreThanLimit|TestRefusedOnly|TestAvailableIs|TestClockMatrix' $(UNRACEDTOO) &
$(GOTEST) -p 3 $$($(GO) list $(SLOWEST) ./... | grep -vxF "$$($(GO) list $(RACED))")
endef
RACETEST    := CGO_ENABLED=1 $(GOTEST) -p 2
define RACE
$(RACETEST) -short -race -skip '$(UNRACEDRUNS)' $(RACED) &
$(RACETEST) -short -race -run '$(RACEDEXPORT)' ./internal/export &
$(RACETEST) -race -run '$(RACEDALONE)' -skip Cluster ./sinks/clickhouse ./sinks/postgres ./sinks/parquet ./sinks/sinktest ./internal/deltalog ./internal/archive ./internal/web &
endef
export READY QUICK UNRACED RACE

# Every step runs, and the last lines say what failed and how to run just that.
test: ## install what is missing and run all tests but the long ones, without the race detector
	@printf '%s\n' "$$READY" "$$QUICK" | sh internal/dev/steps/steps.sh

unraced: # the tests that `make race` leaves out
	@printf '%s\n' "$$READY" "$$UNRACED" | sh internal/dev/steps/steps.sh
.PHONY: unraced

race: ## the concurrent packages under the race detector
	@$(MAKE) --no-print-directory $(TEST_BINARY)
	@printf '%s\n' "$$RACE" | sh internal/dev/steps/steps.sh
.PHONY: race

# The demo runs the binary of the tests: it needs no other build. Installing waits for the network, and
# the linter leaves compiled packages that the tests then need not compile.
define CHECK
$(MAKE) --no-print-directory engines &
sh internal/dev/engines/install.sh agents$(if $(TEST_GITEA), && sh internal/dev/engines/install.sh gitea) &
$(MAKE) --no-print-directory lint
$(MAKE) --no-print-directory demo DEMO_BINARY=$(TEST_BINARY)
wait
endef
# The programs of agents, with models of our own; `make check TEST_GITEA=1` also builds Gitea, and lets them work there.
define AGENTS
TEST_AGENTS=1 $(GOTEST) -run 'TestRealAgents|TestRealLoop' ./internal/site/runner $(if $(TEST_GITEA),./internal/cli )&
endef
export CHECK AGENTS
check: ## what CI runs: lint, the demo, every test, the race detector, real agents
	@$(MAKE) -s steps | sh internal/dev/steps/steps.sh

steps: # the steps of `make check`
	@printf '%s\n' "$$CHECK" "$$READY" "$$AGENTS" "$$RACE" "$$UNRACED"
.PHONY: steps

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

engines: # what the tests run against: ClickHouse, ZooKeeper, PostgreSQL, an S3 server, nginx, Caddy, DuckDB, pyarrow, Spark, statsmodels, MCP clients, axe-core
	@sh sinks/parquet/testdata/install-readers.sh
	@sh internal/dev/engines/install-delta.sh
	@sh internal/outcomes/testdata/install-statsmodels.sh
	@sh internal/mcp/testdata/install-clients.sh
	@sh internal/dev/engines/install.sh

report: ## write bin/report.html, a report of a sandbox with agent jobs
	@$(MAKE) --no-print-directory $(DEMO_BINARY)
	@sh internal/web/testdata/demo.sh $(DEMO_BINARY) bin/report.html
	@echo "file://$(CURDIR)/bin/report.html"
.PHONY: report

# BENCH='-former BINARY' lets the docgauge of an earlier commit take part.
bench: ## speed, memory and requests, against hand-written clients; the economy of live services
	$(GO) run ./internal/dev/bench $(BENCH)
	@$(MAKE) --no-print-directory economy

bench-peers: ## speed and kills of docgauge, dlt, pyarrow and a Go client, on the same windows
	@sh internal/dev/bench/peers/install.sh
	$(GO) run ./internal/dev/bench -peers $(BENCH)
.PHONY: bench-peers

economy: # simulated days of live services, in a few minutes
	@mkdir -p bin
	@$(GO) test -count=1 -timeout 30m -run 'TestEconomy$$' -v ./internal/export -economy > bin/economy.txt || { cat bin/economy.txt; exit 1; }
	@sed -n 's/.*TABLE //p' bin/economy.txt
.PHONY: economy

torture: ## kill the real binary 880 times and compare rows, agent jobs, what verify finds, readers and jobs of a site; the simulated year; clusters
	$(GO) test -count=1 -timeout 30m -run 'TestTorture(Verify)?$$' -v ./internal/cli -torture 200 -torture-seed 0
	$(GO) test -count=1 -timeout 40m -run TestTortureJobs -v ./internal/cli -torture 120
	$(GO) test -count=1 -timeout 20m -run 'TestRotation|TestFilesComeAndGo' -v ./internal/cli -site-kills 60
	$(GO) test -count=1 -timeout 30m -run TestDrains -v ./internal/cli -push-kills 200
	$(GO) test -count=1 -timeout 30m -run TestTortureRunner -v ./internal/cli -runner-kills 300
	$(GO) test -count=1 -timeout 40m -run TestYear -v ./internal/export -long
	$(GO) test -count=1 -timeout 40m -run TestCluster -v ./sinks/clickhouse -long

fuzz: ## each fuzz target for 30 seconds
	@for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 30s $$p || exit 1; done; done

docs: ## write the generated parts of the documentation
	$(GO) test ./internal/cli -run TestREADME -update
	$(GO) test ./exporter -run TestDocumentation -update
	$(GO) test ./internal/site/serve -run TestDocumentedMetrics -update
	$(GO) test ./deploy -run 'TestHelmGolden|TestHelmSettings' -update

# The installer has the versions of the lists: a newer one goes there first.
crawlers: ## write the names of crawlers from the public list that internal/dev/engines/install.sh pins
	@sh internal/dev/engines/install.sh user-agents
	$(GO) test ./internal/site/agents -run TestCrawlers -update
.PHONY: crawlers

dashboards: ## test dashboards/json, and write the form that Grafana imports by hand to bin/dashboards
	@mkdir -p bin/dashboards
	$(GO) run ./internal/dev/release import dashboards/json bin/dashboards
	$(GO) test ./dashboards

# SOURCE_DATE_EPOCH, the commit's time, becomes the time of every file, so that
# two builds of a commit with one version of Go are the same bytes. A commit without a
# tag becomes version 0.0.0-gCOMMIT: packages and charts need three numbers.
release: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
release: export RELEASE_TIME = $(shell date -u -d @$(SOURCE_DATE_EPOCH) +%Y-%m-%dT%H:%M:%SZ)
release: export RELEASE_VERSION = $(patsubst v%,%,$(if $(filter v%,$(VERSION)),$(VERSION),0.0.0-g$(VERSION)))
release: export VERSION := $(VERSION)
release: export COMMIT := $(COMMIT)
release: $(GORELEASER) ## archives, packages, container image, chart, SBOMs and checksums, in dist
	rm -rf dist
	$(GORELEASER) release --snapshot --clean
	$(GO) run ./internal/dev/release finish bin/release dist
	$(GO) test -count=1 ./internal/dev/release -run TestDist -dist $(CURDIR)/dist
.PHONY: release

$(GORELEASER): Makefile
	@mkdir -p $(TOOLS)/bin
	GOBIN=$(TOOLS)/bin $(GO) install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
	@touch $(GORELEASER)

chart: ## package the Helm chart with its rules and dashboards into dist (needs helm)
	helm package --destination dist deploy/helm/docgauge
.PHONY: chart

clean: ## remove what was built
	rm -rf bin dist
