#!/bin/sh
# Installs the program, the units, the user and an example configuration, below
# DESTDIR if it is set, and starts nothing. It keeps an existing configuration. Run it
# as root, from a clone or a release archive:
#
#   sh deploy/systemd/install.sh path/to/docgauge
set -eu
program=${1:?usage: install.sh path/to/docgauge}
from=$(dirname "$0")
to=${DESTDIR:-}

install -D -m 0755 "$program" "$to/usr/local/bin/docgauge"
for unit in docgauge.service docgauge@.service docgauge-site.service docgauge-export.service docgauge-export.timer; do
	install -D -m 0644 "$from/$unit" "$to/etc/systemd/system/$unit"
done
install -D -m 0644 "$from/docgauge.sysusers" "$to/usr/lib/sysusers.d/docgauge.conf"
install -D -m 0644 "$from/docgauge.tmpfiles" "$to/usr/lib/tmpfiles.d/docgauge.conf"
# The template for further organisations, each with a docgauge@NAME.service.
install -D -m 0644 "$from/docgauge.env" "$to/usr/share/docgauge/docgauge.env"
new=
for name in docgauge docgauge-site; do
	settings=$to/etc/docgauge/${name#docgauge-}.env
	[ -e "$settings" ] || { install -D -m 0640 "$from/$name.env" "$settings"; new="$new $settings"; }
done

if [ -z "$to" ]; then
	systemd-sysusers docgauge.conf
	systemd-tmpfiles --create docgauge.conf
	# The unit's user reads the settings, also at a reload.
	[ -z "$new" ] || chgrp docgauge $new
	systemctl daemon-reload
fi
cat <<END
Now, with the key of your platform in \$KEY:
  echo "\$KEY" | sudo install -m 0640 -g docgauge /dev/stdin $to/etc/docgauge/key
  sudo docgauge init --env-file $to/etc/docgauge/docgauge.env --api-key-file $to/etc/docgauge/key
  sudo systemctl enable --now docgauge.service   # or docgauge-export.timer
For a site of your own, from the access logs of its web server, see docs/site.md.
Commands as the service runs them:
  sudo -u docgauge docgauge --env-file $to/etc/docgauge/docgauge.env status
END
