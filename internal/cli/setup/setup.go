// Package setup is what the two wizards of init share, the platform's and the site's: the questions
// on a terminal, the file of settings, and how to use it.
package setup

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/config"
)

// Options are the flags of init; a terminal is asked for missing ones.
type Options struct {
	Path, Dir           string
	BaseURL, Projects   string
	Names               string // of the projects, as DOCGAUGE_PROJECT_NAMES has them
	Key, KeyFile        string
	KeyOnStdin, NoCheck bool
	Export              bool
	Site                SiteOptions
	// More are further settings of the file.
	More [][2]string
	// Unit is the service that reads the file, which exists and is a package's unchanged template.
	Unit string
}

// SiteOptions are the flags of init for a site without a platform.
type SiteOptions struct{ Path, Logs, Hosts, Dir, Humans string }

// OwnSite is the answer to the question for the base URL if there is no platform.
const OwnSite = "site"

// IsSite reports whether a site without a platform is set up.
func (o *Options) IsSite() bool { return o.Site.Logs != "" || o.BaseURL == OwnSite }

// Template is what packages and install.sh install as the file of settings.
//
//go:embed template.env
var Template string

// SiteTemplate is what packages and install.sh install as the settings of docgauge-site.service.
//
//go:embed site.env
var SiteTemplate string

// optional are settings that init does not ask for, as comments of its file.
const optional = `
#DOCGAUGE_API_KEY_EXPIRES=2027-01-31
#DOCGAUGE_SINCE=2026-01-01
` + notified

const notified = `#DOCGAUGE_NOTIFY_FORMAT=slack
#DOCGAUGE_NOTIFY_URL=https://hooks.slack.com/services/…
`

// CheckFile refuses a file that exists, unless it is the unchanged template of a package.
func (o *Options) CheckFile() error {
	if _, err := os.Lstat(o.Path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if text, err := os.ReadFile(o.Path); err != nil || string(text) != Template {
		return input.Usagef("--env-file: %s exists, and init replaces no file: name another, or edit this one",
			o.Path)
	}
	// The units are docgauge.service, and docgauge@NAME.service with NAME.env.
	unit, dir := "docgauge", "/var/lib/docgauge"
	if name := strings.TrimSuffix(filepath.Base(o.Path), ".env"); name != unit {
		unit, dir = unit+"@"+name, dir+"-"+name
	}
	if o.KeyFile == "" && o.Site.Logs == "" {
		return input.Usagef("--api-key-file: missing: %s belongs to a service, which reads the key "+
			"from a file; put it into %s", o.Path, filepath.Join(filepath.Dir(o.Path), o.UnitKey()))
	}
	o.Unit, o.Dir = unit+".service", cmp.Or(o.Dir, dir)
	return nil
}

// UnitKey is the name of the key's file that a unit reads beside its settings.
func (o *Options) UnitKey() string {
	if name := strings.TrimSuffix(filepath.Base(o.Path), ".env"); name != "docgauge" {
		return name + ".key"
	}
	return "key"
}

// Text is the file of settings. Its paths are absolute, so that it works from anywhere.
func (o *Options) Text() (string, error) {
	var err error
	key, value := "DOCGAUGE_API_KEY", o.Key
	if o.KeyFile != "" {
		key = "DOCGAUGE_API_KEY_FILE"
		if value, err = filepath.Abs(o.KeyFile); err != nil {
			return "", err
		}
	}
	values := append([][2]string{
		{"DOCGAUGE_BASE_URL", o.BaseURL}, {key, value}, {"DOCGAUGE_PROJECTS", o.Projects},
		{"DOCGAUGE_STATE_DIR", filepath.Join(o.Dir, "state")}, {"DOCGAUGE_PARQUET_URL", filepath.Join(o.Dir, "data")},
	}, o.More...)
	if o.Names != "" {
		values = slices.Insert(values, 3, [2]string{"DOCGAUGE_PROJECT_NAMES", o.Names})
	}
	if len(o.More) > 0 {
		return EnvText(values, "\n"+notified), nil
	}
	return EnvText(values, optional), nil
}

// AskNames asks what people call the projects, unless a flag says it. A name without an answer is the proposed one, of
// the environment or byDefault.
func (o *Options) AskNames(ctx context.Context, p *Prompter, byDefault string, projects ...string) error {
	var known config.ProjectNames
	_ = known.Decode(os.Getenv("DOCGAUGE_PROJECT_NAMES")) // none, if it is not set
	var names []string
	for _, id := range projects {
		question, proposed := "Name of "+id+", for people", cmp.Or(known[id], byDefault)
		if proposed == "" {
			question += " (Enter: its id)"
		}
		name, err := p.Line(ctx, question, proposed, func(name string) error {
			if name == "" {
				return nil
			}
			if strings.Contains(name, ",") {
				return errors.New("want a name without a comma")
			}
			return new(config.ProjectNames).Decode(id + "=" + name)
		})
		if err != nil {
			return err
		}
		if name != "" {
			names = append(names, id+"="+name)
		}
	}
	o.Names = strings.Join(names, ",")
	return nil
}

// EnvText is a file of settings, with further ones as comments.
func EnvText(values [][2]string, comments string) string {
	var b strings.Builder
	b.WriteString("# Settings of docgauge, for --env-file, systemd and containers; nothing in it is\n# executed. " +
		"`docgauge help configuration --all` lists all of them.\n")
	for _, v := range values {
		b.WriteString(v[0] + "=" + config.QuoteEnv(strings.TrimSpace(v[1])) + "\n")
	}
	return b.String() + comments
}

// Adopt makes the text the settings of this process, in place of its environment, and
// checks them. More are the names of further settings of the text.
func (o *Options) Adopt(a *console.Console, text string, more ...string) (config.Config, error) {
	if o.Names != "" {
		more = append(more, "PROJECT_NAMES")
	}
	for _, name := range append([]string{"BASE_URL", "API_KEY", "API_KEY_FILE", "PROJECTS", "STATE_DIR", "PARQUET_URL"},
		more...) {
		if value, set := os.LookupEnv("DOCGAUGE_" + name); set && value != "" {
			a.Note("DOCGAUGE_%s is set in the environment too, and wins over the file: unset it", name)
		}
		if err := os.Unsetenv("DOCGAUGE_" + name); err != nil {
			return config.Config{}, err
		}
	}
	a.Source = config.ParseSource(o.Path, text)
	return a.Config(config.NeedProjects | config.NeedAPI)
}
