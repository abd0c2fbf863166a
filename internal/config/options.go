package config

import (
	"time"

	"github.com/docgauge/docgauge/internal/web/server"
	"github.com/docgauge/docgauge/sinks/clickhouse"
	"github.com/docgauge/docgauge/sinks/delta"
	"github.com/docgauge/docgauge/sinks/postgres"
)

// The options here are made once, both to check the settings and to use them.

// Server returns the listener's configuration, without handlers.
func (c Config) Server() server.Options {
	return server.Options{Addresses: c.ListenAddress, WebConfigFile: c.WebConfigFile, AllowedHosts: c.AllowedHosts}
}

// Delta returns the options of the sink delta, without the files of another sink.
func (c Config) Delta() delta.Options {
	return delta.Options{URL: c.DeltaURL, Version: c.Build.Version, Now: time.Now}
}

// ClickHouse returns the options of the sink clickhouse.
func (c Config) ClickHouse() clickhouse.Options {
	return clickhouse.Options{DSN: string(c.ClickHouseDSN), Cluster: c.ClickHouseCluster, Version: c.Build.Version,
		Now: time.Now}
}

// Postgres returns the options of the sink postgres.
func (c Config) Postgres() postgres.Options {
	return postgres.Options{DSN: string(c.PostgresDSN), Version: c.Build.Version, Now: time.Now}
}
