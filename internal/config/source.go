package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/secretfile"
)

// Source is where settings come from: flags of the command line win over the environment of the
// process, which wins over a file. A Source never changes.
type Source struct {
	// File is the file; the zero value for none.
	File EnvFile
	// Problems are the problems of the file itself; each begins with the file and the line.
	Problems Problems
	// Warnings are about settings of the file that work but should be changed.
	Warnings []string

	lines   []envLine
	agents  string // the names of agents' variables
	flags   map[string]Flag
	environ map[string]string
	dropped func(key string) bool // the variables that do not count; nil = none
}

// EnvFile is a file of settings.
type EnvFile struct {
	// Path is as given: absolute, or relative to the working directory.
	Path string
	// NamedBy is the flag or variable that names the file.
	NamedBy string
}

// Flag is a flag of the command line that sets a variable.
type Flag struct {
	Name string // with its dashes
	// Value is empty for the default.
	Value string
}

// ReadSource reads the environment, and the file unless its path is empty: a regular file of at
// most 64 KiB. The flags are by variable.
func ReadSource(from EnvFile, flags map[string]Flag) *Source {
	var file secretfile.File
	var err error
	path := from.Path
	if path != "" {
		file, err = secretfile.ReadFile(path)
	}
	s := ParseSource(path, file.Text)
	s.File, s.flags = from, flags
	if err != nil {
		s.Problems.add("%s: %v%s", from.NamedBy, err, from.relative())
	}
	for _, l := range s.lines {
		agents, _ := s.agentVariable(l.key)
		if file.WorldReadable() && (isSecret(l.key) || agents) && l.value != "" {
			s.Warnings = append(s.Warnings, fmt.Sprintf(
				"%s:%d: %s: every user of this machine can read the file (mode %04o): chmod 600 %s",
				path, l.number, l.key, file.Mode, path))
		}
	}
	return s
}

// relative says where a relative path begins, in an error.
func (f EnvFile) relative() string {
	if dir, err := os.Getwd(); err == nil && !filepath.IsAbs(f.Path) {
		return fmt.Sprintf(", in %s: the path is relative; give the absolute one", dir)
	}
	return ""
}

// ParseSource reads the environment and the text of a file; path is for messages.
func ParseSource(path, text string) *Source {
	s := &Source{File: EnvFile{Path: path}, environ: environ()}
	s.parse(text)
	return s
}

// processEnv guards our variables in the environment of this process, which has values of the file while they are
// decoded. No child inherits them: commands decode before they start one, and serve, which decodes again at a reload,
// starts none.
var processEnv sync.Mutex

// environ returns the environment of this process.
func environ() map[string]string {
	processEnv.Lock()
	defer processEnv.Unlock()
	out := map[string]string{}
	for _, pair := range os.Environ() {
		key, value, _ := strings.Cut(pair, "=")
		out[key] = value
	}
	return out
}

// setenv sets a variable of this process, or unsets it. It does not touch one that stays the same: a library may be
// reading it.
func setenv(key, value string, set bool) error {
	switch former, was := os.LookupEnv(key); {
	case was && !set:
		return os.Unsetenv(key)
	case set && (!was || former != value):
		return os.Setenv(key, value)
	}
	return nil
}

// Only returns a source in which of all variables of docgauge only the named ones can be set, and
// the files of named secrets. Variables of libraries and unknown names stay.
func (s *Source) Only(names ...string) *Source {
	only := *s
	only.dropped = func(key string) bool {
		if secret := strings.TrimSuffix(key, "_FILE"); isSecret(secret) {
			key = secret
		}
		_, ours := variable(key)
		return ours && !slices.Contains(names, key)
	}
	return &only
}

// The sources of a value besides a file and a flag.
const sourceDefault, sourceEnvironment = "default", "environment"

// isSet reports whether a variable with this value counts as set.
func isSet(key, value string) bool {
	v, ours := variable(key)
	return value != "" || !ours || v.tag.Get("empty") != ""
}

// find returns the value of a variable, its source, and its line in a file. A secret and its _FILE
// are one setting: if the environment has either, the file's is ignored.
func (s *Source) find(key string) (value, source string, line int) {
	if s.dropped != nil && s.dropped(key) {
		return "", sourceDefault, 0
	}
	if flag, ok := s.flags[key]; ok {
		return flag.Value, flag.Name, 0
	}
	if value, ok := s.environ[key]; ok && isSet(key, value) {
		return value, sourceEnvironment, 0
	}
	if s.environ[key+"_FILE"] != "" && isSecret(key) {
		return "", sourceDefault, 0
	}
	if secret := strings.TrimSuffix(key, "_FILE"); secret != key && s.environ[secret] != "" && isSecret(secret) {
		return "", sourceDefault, 0
	}
	for _, l := range s.lines {
		if l.key == key {
			return l.value, s.File.Path, l.number
		}
	}
	return "", sourceDefault, 0
}

// Lookup returns the value of a variable, and whether it is set.
func (s *Source) Lookup(key string) (value string, set bool) {
	value, source, _ := s.find(key)
	return value, source != sourceDefault && isSet(key, value)
}

// locate prepends file and line, or the flag, to each problem with a value from there.
func (s *Source) locate(p Problems) {
	for i, text := range p {
		key, _, _ := strings.Cut(text, ":")
		key, _, _ = strings.Cut(key, ",")
		_, source, line := s.find(key)
		if line > 0 {
			source = fmt.Sprintf("%s:%d", source, line)
		}
		if source != sourceDefault && source != sourceEnvironment {
			p[i] = source + ": " + text
		}
	}
}

// checkNames finds DOCGAUGE_ variables of the environment that nothing reads. Kubernetes sets some for each Service
// whose name begins with docgauge, which are not ours: their names begin like the one that ends in _SERVICE_HOST.
func (s *Source) checkNames(p *Problems) {
	services := []string{prefix}
	for key := range s.environ {
		if service, ok := strings.CutSuffix(key, "SERVICE_HOST"); ok {
			services = append(services, service)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.environ)) {
		_, known := variable(key)
		if strings.HasPrefix(key, prefix) && !known && !slices.ContainsFunc(services, func(service string) bool {
			return strings.HasPrefix(key, service+"PORT") || strings.HasPrefix(key, service+"SERVICE_")
		}) {
			p.add("%s: unknown variable%s", key, didYouMean(key))
		}
	}
}

// Export sets the variables of libraries in the environment of this process, because libraries read them only there.
func (s *Source) Export() error {
	keys := slices.Collect(maps.Keys(environ()))
	for _, l := range s.lines {
		keys = append(keys, l.key)
	}
	var errs []error
	for _, key := range keys {
		if libraryKeys.MatchString(key) {
			value, set := s.Lookup(key)
			errs = append(errs, setenv(key, value, set))
		}
	}
	return errors.Join(errs...)
}

// Reload reads the file again, below the same environment and flags, for a running process with the settings of
// former. After an error, which has the type [Problems], they stay.
func (s *Source) Reload(n Need, now time.Time, former Config) (*Source, Config, error) {
	next := ReadSource(s.File, s.flags)
	next.environ = s.environ
	c, err := next.Load(n, now)
	if err == nil {
		err = next.checkFixed(s, former, c)
	}
	if err != nil {
		return nil, former, err
	}
	return next, c, nil
}

// fixedLibraries are variables that libraries read once in the life of a process.
var fixedLibraries = regexp.MustCompile(`^((HTTPS?|NO)_PROXY|(https?|no)_proxy|SSL_CERT_(FILE|DIR))$`)

// checkFixed names the settings that differ and need a restart. It quotes no value.
func (s *Source) checkFixed(former *Source, was, is Config) error {
	var p Problems
	const remedy = ": serve cannot change it while it runs: restart it, or set it back; nothing was reloaded"
	for _, v := range Variables() {
		if v.tag.Get("fixed") != "" && !reflect.DeepEqual(v.in(&was).Interface(), v.in(&is).Interface()) {
			p.add("%s%s", v.Name, remedy)
		}
	}
	for _, l := range slices.Concat(former.lines, s.lines) {
		before, wasSet := former.Lookup(l.key)
		now, isSet := s.Lookup(l.key)
		if fixedLibraries.MatchString(l.key) && (now != before || isSet != wasSet) {
			p.add("%s%s", l.key, remedy)
		}
	}
	if len(p) == 0 {
		return nil
	}
	slices.Sort(p)
	p = slices.Compact(p)
	s.locate(p)
	return p
}

// Setting is one setting in effect; its JSON keys are stable.
type Setting struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	// Value is [redacted] for a secret, and empty where nothing is set.
	Value string `json:"value"`
	// Source is default, environment, or the file; Line is the line in the file.
	Source string `json:"source"`
	Line   int    `json:"line,omitempty"`
}

// Explain returns every setting in effect with its source, in the order of [Variables], then variables of libraries
// that are set. The error is the error of Load; the settings are returned with an error, too.
func (s *Source) Explain(n Need, now time.Time) ([]Setting, Config, error) {
	c, err := s.Load(n, now)
	all := slices.Clone(Variables())
	keys := slices.Collect(maps.Keys(s.environ))
	for _, l := range s.lines {
		keys = append(keys, l.key)
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		if secret, agents := s.agentVariable(key); agents {
			all = append(all, Variable{Name: key, Group: "Agents", Secret: secret})
		} else if libraryKeys.MatchString(key) {
			all = append(all, Variable{Name: key, Group: "Libraries", Secret: isSecret(key)})
		}
	}
	var out []Setting
	for _, v := range all {
		setting := Setting{Name: v.Name, Group: v.Group, Value: v.Default, Source: sourceDefault}
		if value, source, line := s.find(v.Name); isSet(v.Name, value) && source != sourceDefault {
			setting.Value, setting.Source, setting.Line = value, source, line
		} else if v.Meaning == "" {
			continue // the file of a secret
		}
		if v.Name == prefix+"SINCE" && setting.Value == "" {
			setting.Value = c.Since.Date.String()
		}
		if v.Secret && setting.Value != "" {
			setting.Value = fmt.Sprint(Secret(setting.Value))
		}
		// The password of a URL should not be in any other setting.
		if u, err := url.Parse(setting.Value); err == nil && u.User != nil {
			setting.Value = u.Redacted()
		}
		out = append(out, setting)
	}
	return out, c, err
}
