// Package config reads the settings: it decodes and checks them, and reports everything that is
// wrong with them at once. It opens and sends nothing.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"

	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/secretfile"
	"github.com/docgauge/docgauge/internal/web/server"
)

// Problems is a bad configuration, with one line for each problem.
type Problems []string

// Error lists all of them.
func (p Problems) Error() string {
	return "configuration:\n  " + strings.Join(p, "\n  ")
}

func (p *Problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// join adds every line of an error.
func (p *Problems) join(err error) {
	if err != nil {
		*p = append(*p, strings.Split(err.Error(), "\n")...)
	}
}

// Need says which settings a command requires.
type Need int

// The needs; they can be combined.
const (
	NeedProjects Need = 1 << iota
	NeedAPI           // BASE_URL and API_KEY
	NeedServer        // the listener of serve
	NeedPrompts       // PROMPTS_DIR
	NeedSite          // SITE_LOGS, and the listeners of site serve
	NeedNothing  Need = 0
)

// Load returns the settings; it changes nothing. The error has the type [Problems], and names the file and line, or
// the flag, of each value.
func (s *Source) Load(n Need, now time.Time) (Config, error) {
	c := Config{File: s.File.Path, Warnings: slices.Clone(s.Warnings), SecretFiles: map[string]string{},
		AgentVariables: map[string]string{}}
	for _, name := range format.List(s.agents) {
		name = strings.TrimPrefix(name, "+")
		if value, set := s.Lookup(name); set {
			c.AgentVariables[name] = value
		}
	}
	p := slices.Clone(s.Problems)
	s.checkNames(&p)
	s.decode(&c, &p)
	for _, v := range Variables() {
		if file, ok := s.Lookup(v.Name + "_FILE"); ok && v.Secret {
			// The key of a site does not exist before one of the commands that do not need it has made it.
			spare := v.Name == "DOCGAUGE_API_KEY" && n&NeedAPI == 0
			c.readSecret(v, file, spare, &p)
		}
	}
	c.require(n, &p)
	c.validate(now, &p)
	if n&NeedServer != 0 {
		p.join(server.Check(c.Server()))
	}
	if n&NeedSite != 0 {
		p.join(server.Check(c.SiteServer()))
		if ingest := c.SiteIngest(); len(ingest.Addresses) > 0 {
			ingest.WebConfigFile = "" // that is checked
			p.join(server.Check(ingest))
		}
		if metrics := c.SiteMetrics(); len(metrics.Addresses) > 0 {
			metrics.WebConfigFile = "" // that is checked
			p.join(server.Check(metrics))
		}
	}
	s.locate(p)
	if len(p) > 0 {
		return c, p
	}
	return c, nil
}

// decode sets the fields of c. envconfig reads the environment of this process and nothing else, and stops at the
// first problem; so that environment has the values of the source until all are decoded, and each pass does without
// the bad value of the former one.
func (s *Source) decode(c *Config, p *Problems) {
	former := environ()
	processEnv.Lock()
	defer processEnv.Unlock()
	for _, v := range Variables() {
		value, set := s.Lookup(v.Name)
		if v.Secret { // nothing to decode, and none of the file's is ever in the environment
			v.in(c).SetString(value)
			set = false
		}
		p.join(setenv(v.Name, value, set))
	}
	defer func() {
		for _, v := range Variables() {
			value, set := former[v.Name]
			p.join(setenv(v.Name, value, set))
		}
	}()
	for range Variables() {
		err := envconfig.Process("", c)
		bad, isValue := errors.AsType[*envconfig.ParseError](err)
		if !isValue {
			p.join(err)
			return
		}
		p.add("%s: %v", bad.KeyName, bad.Err) // the message of bad itself has the whole value, which may have a password
		p.join(os.Unsetenv(bad.KeyName))
	}
}

// readSecret reads a secret that is given as a file. A spare one can be missing.
func (c *Config) readSecret(v Variable, path string, spare bool, p *Problems) {
	c.SecretFiles[v.Name] = path
	if v.in(c).String() != "" {
		p.add("%[1]s and %[1]s_FILE: set one of them", v.Name)
		return
	}
	file, err := secretfile.ReadFile(path)
	text := strings.TrimSpace(file.Text)
	switch {
	case spare && (errors.Is(err, fs.ErrNotExist) || err == nil && text == ""):
		return
	case err != nil:
		p.add("%s_FILE: %v", v.Name, err)
		return
	case text == "":
		p.add("%s_FILE: the file is empty", v.Name)
	}
	// In a container the file may belong to another user, so that its mode cannot be changed.
	if file.WorldReadable() && file.Own {
		c.Warnings = append(c.Warnings, fmt.Sprintf(
			"%s_FILE: every user of this machine can read the file (mode %04o): chmod 600 %s",
			v.Name, file.Mode, path))
	}
	v.in(c).SetString(text)
}

// checkRange checks a whole number or a length of time against its tag.
func (v Variable) checkRange(c *Config, p *Problems) {
	least, most, isLimited := strings.Cut(v.tag.Get("range"), ",")
	if !isLimited {
		return
	}
	limit := func(text string) reflect.Value {
		to := reflect.New(v.in(c).Type())
		p.join(to.Interface().(envconfig.Decoder).Decode(text))
		return to.Elem()
	}
	is, from, to := v.in(c), limit(least), limit(most)
	if is.Int() < from.Int() || is.Int() > to.Int() {
		p.add("%s: %v is not from %v to %v", v.Name, is, from, to)
	}
}
