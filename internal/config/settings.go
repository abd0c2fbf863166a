package config

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

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

// libraries is the group of variables that are not ours.
const libraries = "Libraries"

// Explain returns every setting in effect with its source, in the order of
// [Variables], then variables of libraries that are set. The error is that of Load;
// the settings are there with an error, too.
func (f *EnvFile) Explain(n Need, now time.Time) ([]Setting, Config, error) {
	var out []Setting
	for _, v := range Variables() {
		s := f.setting(v)
		if isFileOfSecret := v.Meaning == ""; s.Source == sourceDefault && isFileOfSecret {
			continue
		}
		out = append(out, s)
	}
	environment := os.Environ()
	slices.Sort(environment)
	for _, pair := range environment {
		if key, _, _ := strings.Cut(pair, "="); libraryKeys.MatchString(key) {
			out = append(out, f.setting(Variable{Name: key, Group: libraries, Secret: isSecret(key)}))
		}
	}
	// Loading takes what is empty or wrong out of the environment.
	c, err := f.Load(n, now)
	for i, s := range out {
		if s.Name == prefix+"_SINCE" && s.Source == sourceDefault && c.Since.Set {
			out[i].Value = c.Since.Date.String()
		}
	}
	return out, c, err
}

const (
	sourceDefault     = "default"
	sourceEnvironment = "environment"
)

func (f *EnvFile) setting(v Variable) Setting {
	s := Setting{Name: v.Name, Group: v.Group, Value: v.Default, Source: sourceDefault}
	if inEnvironment(v.Name) {
		s.Value, s.Source = os.Getenv(v.Name), sourceEnvironment
	}
	if line := f.applied[v.Name]; line > 0 && s.Source == sourceEnvironment {
		s.Source, s.Line = f.Path, line
	}
	if v.Secret && s.Value != "" {
		s.Value = fmt.Sprint(Secret(s.Value))
	}
	s.Value = withoutPassword(s.Value)
	return s
}

// withoutPassword hides the password of a URL, which belongs into no such setting.
func withoutPassword(value string) string {
	if u, err := url.Parse(value); err == nil && u.User != nil {
		return u.Redacted()
	}
	return value
}
