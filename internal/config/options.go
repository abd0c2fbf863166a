package config

import (
	"github.com/docgauge/docgauge/internal/secretfile"
	"github.com/docgauge/docgauge/internal/web/server"
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

// SiteIngest returns the listener of lines that are pushed; without an address the API's takes them.
func (c Config) SiteIngest() server.Options {
	o := server.Options{Setting: "DOCGAUGE_SITE_INGEST_ADDRESS", WebConfigFile: c.WebConfigFile}
	if c.SiteIngestAddress != "" {
		o.Addresses = []string{c.SiteIngestAddress}
	}
	return o
}

// SiteMetrics returns the listener of site serve's metrics; without an address there is none.
func (c Config) SiteMetrics() server.Options {
	o := server.Options{Setting: "DOCGAUGE_SITE_METRICS_ADDRESS", WebConfigFile: c.WebConfigFile}
	if c.SiteMetricsAddress != "" {
		o.Addresses = []string{c.SiteMetricsAddress}
	}
	return o
}

// CodeHostToken returns what reads DOCGAUGE_SITE_TOKEN, from a file each time anew; nil without a token.
func (c Config) CodeHostToken() func() (string, error) {
	if file := c.SecretFiles["DOCGAUGE_SITE_TOKEN"]; file != "" {
		return func() (string, error) { return secretfile.Read(file) }
	}
	if c.SiteToken == "" {
		return nil
	}
	return func() (string, error) { return string(c.SiteToken), nil }
}
