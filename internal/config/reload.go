package config

import (
	"errors"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Reload reads the settings of a running process again, in which former are in effect: the
// file, over the environment that the process began with, and the files of secrets.
//
// After an error, which is of type [Problems], nothing has changed. Otherwise the returned
// file replaces f, its settings are in the environment, and undo takes them back.
func (f *EnvFile) Reload(n Need, now time.Time, former Config) (next *EnvFile, c Config, undo func() error, err error) {
	before := os.Environ()
	undo = func() error { return setEnviron(before) }
	next = &EnvFile{}
	if f.Path != "" {
		next = ReadEnvFile(f.Path)
	}
	next.flags, next.environ = f.flags, f.environ
	if f.environ != nil {
		err = setEnviron(next.over(f.environ))
	}
	if err == nil {
		c, err = next.Load(n, now)
	}
	if err == nil {
		err = next.checkFixed(former, c, before)
	}
	if err != nil {
		return nil, former, undo, errors.Join(err, undo())
	}
	return next, c, undo, nil
}

// fixed are the settings that serve cannot change while it runs: other processes hold on to
// what they name.
var fixed = []string{"StateDir", "ListenAddress", "AllowedHosts", "WebConfigFile", "LogFormat"}

// fixedLibraries are variables that libraries read once in the life of a process.
var fixedLibraries = regexp.MustCompile(`^((HTTPS?|NO)_PROXY|(https?|no)_proxy|SSL_CERT_(FILE|DIR))$`)

// checkFixed names the settings that differ and need a restart. before is the environment
// that was in effect. It quotes no value.
func (f *EnvFile) checkFixed(former, c Config, before []string) error {
	var p Problems
	const remedy = ": serve cannot change it while it runs: restart it, or set it back; nothing was reloaded"
	for _, name := range fixed {
		field, _ := reflect.TypeFor[Config]().FieldByName(name)
		was, is := reflect.ValueOf(former).FieldByIndex(field.Index), reflect.ValueOf(c).FieldByIndex(field.Index)
		if !reflect.DeepEqual(was.Interface(), is.Interface()) {
			p.add("%s_%s%s", prefix, field.Tag.Get("envconfig"), remedy)
		}
	}
	now := os.Environ()
	for _, pair := range slices.Concat(before, now) {
		key, _, _ := strings.Cut(pair, "=")
		if fixedLibraries.MatchString(key) && slices.Contains(before, pair) != slices.Contains(now, pair) {
			p.add("%s%s", key, remedy)
		}
	}
	if len(p) == 0 {
		return nil
	}
	slices.Sort(p)
	p = slices.Compact(p)
	f.locate(p)
	return p
}
