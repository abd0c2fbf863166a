package cli

import (
	"context"
	"log/slog"
	"os"
)

// heldSecret is a secret in a file that serve reads at the start alone.
type heldSecret struct {
	name, file string
	held       secret
}

func (c config) heldSecrets() []heldSecret {
	return []heldSecret{
		{"DOCGAUGE_CLICKHOUSE_DSN", c.ClickHouseDSNFile, c.ClickHouseDSN},
		{"DOCGAUGE_PUSHGATEWAY_URL", c.PushgatewayFile, c.PushgatewayURL},
		{"DOCGAUGE_NOTIFY_URL", c.NotifyURLFile, c.NotifyURL},
		{"DOCGAUGE_NOTIFY_SECRET", c.NotifySecretFile, c.NotifySecret},
	}
}

// outdated reports whether the file holds another secret now.
func (h heldSecret) outdated() bool {
	if h.file == "" {
		return false
	}
	now, err := secretIn(h.file)
	return err == nil && now != "" && now != h.held
}

// watchSecrets tells once of each that its file has another, and again at each
// signal, until ctx ends.
func watchSecrets(ctx context.Context, all []heldSecret, signals <-chan os.Signal, log *slog.Logger) {
	said := map[string]bool{}
	lookAgain(ctx, signals, func(asked bool) {
		for _, h := range all {
			outdated := h.outdated()
			if outdated && (asked || !said[h.name]) {
				log.Warn("secret has changed, but is read at the start alone: restart to use the new one", "variable", h.name)
			}
			said[h.name] = outdated
		}
	})
}
