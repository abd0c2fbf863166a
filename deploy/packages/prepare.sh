#!/bin/sh
# Writes the generated files of a release to bin/release: manual pages, completion, the
# licences of linked modules, dashboards for import, units for packages, Debian's
# changelog, and the chart. goreleaser runs it; it takes RELEASE_VERSION (without v),
# VERSION and SOURCE_DATE_EPOCH, OUT for another directory, and DOCGAUGE for a program
# that is built.
set -eu
cd "$(dirname "$0")/../.."
out=${OUT:-bin/release}
rm -rf $out
mkdir -p $out/completions $out/man $out/import $out/systemd
docgauge=${DOCGAUGE:-$out/docgauge}
[ -n "${DOCGAUGE:-}" ] || CGO_ENABLED=0 GOFLAGS= go build -trimpath -buildvcs=false -ldflags '-s -w' -o $docgauge ./cmd/docgauge

$docgauge man --dir $out/man
for page in $out/man/*.1; do gzip -9n <"$page" >"$page.gz"; done
$docgauge completion bash >$out/completions/docgauge.bash
$docgauge completion zsh >$out/completions/_docgauge
$docgauge completion fish >$out/completions/docgauge.fish
go run ./internal/dev/release import dashboards/json $out/import
for unit in deploy/systemd/*.service deploy/systemd/*.timer; do
	sed 's#/usr/local/bin/#/usr/bin/#g' "$unit" >$out/systemd/"${unit##*/}"
done

# Most licences require to be passed on with the program. The modules are those that are
# linked on any system.
list() { go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}	{{.Dir}}{{end}}{{end}}' ./cmd/docgauge; }
{
	printf 'The Go programming language %s\t%s\n' "$(go env GOVERSION)" "$(go env GOROOT)"
	for system in linux darwin windows; do GOFLAGS= CGO_ENABLED=0 GOOS=$system list; done | sed '/^$/d' | LC_ALL=C sort -u
} >$out/modules
while IFS='	' read -r module dir; do
	found=
	for file in "$dir"/*; do
		case $(basename "$file" | tr A-Z a-z) in
		licen[cs]e* | copying* | notice* | patents*)
			[ ! -f "$file" ] || { found=yes; printf '==== %s: %s\n\n' "$module" "${file##*/}"; cat "$file"; echo; } ;;
		esac
	done
	[ "$found" ] || { echo "$module has no licence file in $dir: it must not be distributed" >&2; exit 1; }
done <$out/modules >$out/THIRD_PARTY_LICENSES

# dpkg orders 1.2.3~rc.1 before 1.2.3, as nfpm names the version.
printf 'docgauge (%s-1) unstable; urgency=medium\n\n  * docgauge %s: see CHANGELOG.md in this directory.\n\n -- %s  %s\n' \
	"$(echo "$RELEASE_VERSION" | sed 's/-/~/')" "$VERSION" 'docgauge maintainers <maintainers@docgauge.invalid>' \
	"$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >$out/changelog.Debian.gz

# An installed chart has no repository around it: symbolic links become what they stand
# for. A tag of the image has no plus sign.
cp -RL deploy/helm/docgauge $out/chart
sed -e "s/^version: .*/version: $RELEASE_VERSION/" -e "s/^appVersion: .*/appVersion: \"$(echo "$RELEASE_VERSION" | tr + _)\"/" \
	deploy/helm/docgauge/Chart.yaml >$out/chart/Chart.yaml
