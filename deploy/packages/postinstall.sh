#!/bin/sh
# Runs after the files of a package are installed. dpkg calls it with "configure" and the
# former version, rpm with 1 (first installation) or 2 (upgrade). With DPKG_ROOT, it works
# below that directory. It starts nothing that is not configured.
set -e
root=${DPKG_ROOT:-}
case "$1:${2:-}" in
configure: | 1:*) first=yes ;;
configure:* | 2:*) first= ;;
*) exit 0 ;;
esac

systemd-sysusers ${root:+--root="$root"} docgauge.conf
if command -v systemd-tmpfiles >/dev/null; then
	systemd-tmpfiles ${root:+--root="$root"} --create docgauge.conf
fi
if [ "$first" ]; then
	# The unit's user reads the settings, also at a reload. Changed rights are kept.
	gid=$(sed -n 's/^docgauge:[^:]*:\([0-9]*\):.*/\1/p' "$root/etc/group")
	chown "0:$gid" "$root/etc/docgauge/docgauge.env" "$root/etc/docgauge/site.env"
	chmod 0640 "$root/etc/docgauge/docgauge.env" "$root/etc/docgauge/site.env"
	cat <<'END'
docgauge: starts nothing until it is configured:
  echo "$KEY" | sudo install -m 0640 -g docgauge /dev/stdin /etc/docgauge/key
  sudo docgauge init --env-file /etc/docgauge/docgauge.env --api-key-file /etc/docgauge/key
  sudo systemctl enable --now docgauge.service   # or docgauge-export.timer
Commands as the service runs them:
  sudo -u docgauge docgauge --env-file /etc/docgauge/docgauge.env status
For a site of your own, from its access logs: /usr/share/doc/docgauge/docs/site.md
END
fi

# Without systemd, a running process keeps the former program until it is restarted.
if [ -d "$root/run/systemd/system" ]; then
	systemctl daemon-reload
	[ "$first" ] || systemctl try-restart docgauge-site.service docgauge.service 'docgauge@*.service' || true
fi
