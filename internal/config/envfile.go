package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/docgauge/docgauge/internal/format"
)

// envLine is one setting of a file.
type envLine struct {
	key, value string
	number     int
}

// parse reads the text of a file: KEY=VALUE lines, as EnvironmentFile= of systemd and docker
// --env-file take them. Nothing in it is expanded or executed. A line that those programs would
// read in different ways is a problem.
func (s *Source) parse(text string) {
	if !utf8.ValidString(text) {
		s.Problems.add("%s: is not UTF-8 text", s.File.Path)
		return
	}
	lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
	s.agents = s.environ[agentNames]
	for _, line := range lines {
		key, value, err := parseEnvLine(strings.TrimSuffix(line, "\r"))
		if err == nil && key == agentNames && s.agents == "" {
			s.agents = value
		}
	}
	for i, line := range lines {
		key, value, err := parseEnvLine(strings.TrimSuffix(line, "\r"))
		if _, agents := s.agentVariable(key); err == nil && key != "" && !agents {
			err = checkKey(key)
		}
		for _, former := range s.lines {
			if err == nil && former.key == key {
				err = fmt.Errorf("%s: is on line %d already", key, former.number)
			}
		}
		switch {
		case err != nil:
			s.Problems.add("%s:%d: %v", s.File.Path, i+1, err)
		case key != "":
			s.lines = append(s.lines, envLine{key, value, i + 1})
		}
	}
}

// agentNames is the setting that names the variables of agents, which may be in a file too.
const agentNames = prefix + "SITE_AGENT_ENV"

// agentVariable reports whether a variable is one of agents, and whether it is a secret.
func (s *Source) agentVariable(key string) (secret, ok bool) {
	for _, name := range format.List(s.agents) {
		if plain, isPlain := strings.CutPrefix(name, "+"); plain == key && !strings.HasPrefix(key, prefix) {
			return !isPlain, true
		}
	}
	return false, false
}

// libraryKeys are the variables that libraries of this program read.
var libraryKeys = regexp.MustCompile(`^(AWS_[A-Z0-9_]+|(HTTPS?|NO)_PROXY|(https?|no)_proxy|SSL_CERT_(FILE|DIR)|` +
	`GITHUB_TOKEN(_FILE)?)$`)

// librarySecrets are those among them whose values are never shown.
var librarySecrets = regexp.MustCompile(`SECRET|TOKEN$|(?i:_PROXY$)`)

func checkKey(key string) error {
	switch _, ours := variable(key); {
	case key == prefix+"ENV_FILE":
		return fmt.Errorf("%s: a file of settings cannot name another", key)
	case libraryKeys.MatchString(key), ours:
		return nil
	case strings.HasPrefix(key, prefix):
		return fmt.Errorf("%.80s: unknown variable%s", key, didYouMean(key))
	case !variableName.MatchString(key):
		key = "variable" // rather than what may be a secret, pasted alone
	}
	return fmt.Errorf("%s: nothing here reads it: want DOCGAUGE_…, AWS_…, HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE, "+
		"SSL_CERT_DIR, GITHUB_TOKEN or a name in %s", key, agentNames)
}

// variableName matches the names of variables, which secrets do not look like.
var variableName = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,39}$`)

func isSecret(key string) bool {
	if libraryKeys.MatchString(key) {
		return librarySecrets.MatchString(key)
	}
	v, _ := variable(key)
	return v.Secret
}

var envKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// parseEnvLine reads one line; the key is empty where the line sets nothing. No error
// quotes the value, which may be a secret.
func parseEnvLine(line string) (key, value string, err error) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' || line[0] == ';' {
		return "", "", nil
	}
	key, value, ok := strings.Cut(line, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	switch {
	case strings.HasPrefix(key, "export ") && ok:
		return "", "", errors.New(`write KEY=VALUE without "export": the file is not a script`)
	case !ok || !envKey.MatchString(key):
		return "", "", errors.New("want KEY=VALUE, or # and a comment")
	case strings.ContainsFunc(value, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
		return "", "", fmt.Errorf("%s: the value has a control character", key)
	}
	if value, err = unquote(value); err != nil {
		return "", "", fmt.Errorf("%s: %w", key, err)
	}
	return key, value, nil
}

// unquote returns the meaning of a value. Inside double quotes a backslash quotes
// \ " $ and `, as in systemd; inside single quotes it is itself.
func unquote(value string) (string, error) {
	if value == "" || value[0] != '"' && value[0] != '\'' {
		switch { // systemd, docker and compose disagree on these
		case strings.Contains(value, `\`):
			return "", errors.New(`programs disagree on \ outside quotes: write it in 'single quotes'`)
		case strings.HasPrefix(value, "#"), strings.Contains(value, " #"), strings.Contains(value, "\t#"):
			return "", errors.New("a comment needs a line of its own; quote the value if # belongs to it")
		}
		return value, nil
	}
	quote, out := value[0], []byte{}
	for i := 1; i < len(value); i++ {
		switch c := value[i]; {
		case c == quote && i == len(value)-1:
			return string(out), nil
		case c == quote:
			return "", errors.New("text after the closing quote; a comment needs a line of its own")
		case c == '\\' && quote == '"' && i+1 < len(value) && strings.IndexByte("\\\"$`", value[i+1]) >= 0:
			i++
			out = append(out, value[i])
		default:
			out = append(out, c)
		}
	}
	return "", fmt.Errorf("the quote %c is not closed on its line", quote)
}

// QuoteEnv writes a value so that we, and systemd, read the same value back.
func QuoteEnv(value string) string {
	back, err := unquote(value)
	isPlain := err == nil && back == value && strings.TrimSpace(value) == value
	if isPlain && !strings.ContainsAny(value, " \t'\"") {
		return value
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(value) + `"`
}
