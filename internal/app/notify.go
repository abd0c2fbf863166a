package app

import (
	"context"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/notify"
	"github.com/docgauge/docgauge/internal/state"
)

const (
	// pingTimeout and pingGrace bound a ping, and one at a stop.
	pingTimeout = 15 * time.Second
	pingGrace   = 3 * time.Second
)

// NewNotifier makes what delivers notifications, nil if none are wanted.
func (a *App) NewNotifier() (*notify.Notifier, error) {
	c := a.Config
	if c.NotifyURL == "" {
		return nil, nil
	}
	key := string(c.NotifySecret)
	n, err := notify.New(notify.Config{
		URL: string(c.NotifyURL), Format: notify.Format(c.NotifyFormat), Secret: func() string { return key },
		UserAgent: "docgauge/" + c.Build.Version, Now: a.Now, Logger: a.Log,
	}, a.State)
	if err != nil {
		return nil, config.Problems{err.Error()}
	}
	return n, nil
}

// Ping tells the monitor, if there is one, how an export ended. The error is only to be
// logged: a monitor that cannot be reached is no failure of the export.
func Ping(ctx context.Context, c config.Config, good bool) error {
	if c.PingURL == "" {
		return nil
	}
	m, err := notify.NewMonitor(string(c.PingURL), "docgauge/"+c.Build.Version)
	if err != nil {
		return err
	}
	ctx, cancel := clock.Outlive(ctx, pingGrace, pingTimeout)
	defer cancel()
	return m.Ping(ctx, good)
}

// Rows returns the rows of a window from a sink that has it.
func (a *App) Rows(ctx context.Context, e state.Entry) ([]analytics.Row, error) {
	return numbers{a}.rows(ctx, e)
}
