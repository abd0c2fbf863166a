// Package systemd holds the units against systemd's own judgement and against
// docgauge, without booting: install.sh is run into a directory, systemd-analyze
// verifies the units there and rates their hardening, and docgauge is run with
// their environments.
//
// It has no code of its own. No unit has been started: systemd was not process 1
// where this was made.
package systemd
