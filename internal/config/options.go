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

// SiteServer returns the listener of site serve's API, without handler and trusted proxies.
func (c Config) SiteServer() server.Options {
	return server.Options{Addresses: []string{c.SiteListenAddress}, Setting: "DOCGAUGE_SITE_LISTEN_ADDRESS",
		WebConfigFile: c.WebConfigFile}
}

// SiteMetrics returns the listener of site serve's metrics; without an address there is none.
func (c Config) SiteMetrics() server.Options {
	o := server.Options{Setting: "DOCGAUGE_SITE_METRICS_ADDRESS", WebConfigFile: c.WebConfigFile}
	if c.SiteMetricsAddress != "" {
		o.Addresses = []string{c.SiteMetricsAddress}
	}
	return o
}

// Delta returns the options of the sink delta, without the files of another sink.
func (c Config) Delta() delta.Options {
	return delta.Options{URL: c.DeltaURL, Version: c.Build.Version, Now: time.Now, Reports: c.Reports}
}

// ClickHouse returns the options of the sink clickhouse.
func (c Config) ClickHouse() clickhouse.Options {
	return clickhouse.Options{DSN: string(c.ClickHouseDSN), Cluster: c.ClickHouseCluster, Version: c.Build.Version,
		Now: time.Now, Reports: c.Reports}
}

// Postgres returns the options of the sink postgres.
func (c Config) Postgres() postgres.Options {
	return postgres.Options{DSN: string(c.PostgresDSN), Version: c.Build.Version, Now: time.Now, Reports: c.Reports}
}
