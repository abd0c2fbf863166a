#!/bin/sh
# Runs before the files of a package are removed. dpkg calls it with "remove", rpm with 0;
# at an upgrade, with "upgrade" or 1, it stops nothing.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
if [ -d "${DPKG_ROOT:-}/run/systemd/system" ]; then
	systemctl stop 'docgauge@*.service' || true
	systemctl disable docgauge@.service || true # all instances
	systemctl disable --now docgauge.service docgauge-export.timer docgauge-export.service docgauge-site.service || true
fi
