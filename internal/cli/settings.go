package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/docgauge/docgauge/internal/config"
)

// readSettings reads the sources of settings: flags, the environment, and the file that the flag or the environment
// names. Problems of the file are reported together with problems of the configuration; a command that needs no file
// goes without one that has problems.
func (a *Program) readSettings(cmd *cobra.Command, flag string) error {
	file := config.EnvFile{Path: flag, NamedBy: "--env-file"}
	if flag == "" {
		const variable = "DOCGAUGE_ENV_FILE"
		file = config.EnvFile{Path: os.Getenv(variable), NamedBy: variable}
	}
	a.Source = config.ReadSource(file, variablesOf(cmd.Flags()))
	if needsNoFile(cmd) && len(a.Source.Problems) > 0 {
		a.Note("%s\n  %s needs no file of settings, and continues without this one",
			strings.Join(a.Source.Problems, "\n  "), cmd.CommandPath())
		a.Source = config.ReadSource(config.EnvFile{}, variablesOf(cmd.Flags()))
	}
	return a.Source.Export()
}

// needsNoFile reports whether the command needs no settings, or its flags name all that it needs.
func needsNoFile(cmd *cobra.Command) bool {
	switch cmd.Name() {
	case "demo", "sandbox":
		return true
	case "load": // into a sink of the settings
		return false
	}
	return cmd.Flags().Changed("archive")
}

// settingFlags are the flags of serve that win over a variable. Exporters of Prometheus have
// them by the same names.
var settingFlags = map[string]struct{ variable, kind, usage string }{
	"web.listen-address": {"DOCGAUGE_LISTEN_ADDRESS", "host:port",
		"address to listen on, instead of DOCGAUGE_LISTEN_ADDRESS; can be repeated"},
	"web.config.file": {"DOCGAUGE_WEB_CONFIG_FILE", "file",
		"TLS and basic auth, instead of DOCGAUGE_WEB_CONFIG_FILE"},
	"log.level": {"DOCGAUGE_LOG_LEVEL", "level", "debug, info, warn or error, instead of DOCGAUGE_LOG_LEVEL"},
	"log.format": {"DOCGAUGE_LOG_FORMAT", "format",
		"text (which is logfmt) or json, instead of DOCGAUGE_LOG_FORMAT"},
}

// settingFlag is a flag that wins over a variable: its values, comma-separated.
type settingFlag struct{ kind, values string }

func (f *settingFlag) String() string { return f.values }
func (f *settingFlag) Type() string   { return f.kind }

func (f *settingFlag) Set(value string) error {
	if f.kind == "host:port" && f.values != "" {
		value = f.values + "," + value
	}
	f.values = value
	return nil
}

// variablesOf returns the flags that win over a variable.
func variablesOf(flags *pflag.FlagSet) map[string]config.Flag {
	variables := map[string]config.Flag{}
	flags.Visit(func(flag *pflag.Flag) {
		if setting, ok := settingFlags[flag.Name]; ok {
			variables[setting.variable] = config.Flag{Name: "--" + flag.Name, Value: flag.Value.String()}
		}
	})
	return variables
}
