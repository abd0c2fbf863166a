#!/bin/sh
# Runs after the files of a package are removed. During an upgrade it does nothing. Data,
# ledger and key stay, even at a purge: they may be the only copy.
set -e
case "$1" in
remove | purge | 0) ;;
*) exit 0 ;;
esac
root=${DPKG_ROOT:-}
if [ -d "$root/run/systemd/system" ]; then
	systemctl daemon-reload
fi
if [ "$1" != remove ]; then
	for left in /var/lib/docgauge /var/lib/docgauge-site /etc/docgauge; do
		[ ! -e "$root$left" ] || echo "docgauge: $left is left; remove it if you no longer need it"
	done
fi
