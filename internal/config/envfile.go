package config

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/docgauge/docgauge/internal/secretfile"
)

// EnvFile is a file of settings, as --env-file names it. The zero EnvFile is none.
//
// Its lines are KEY=VALUE, as EnvironmentFile= of systemd and docker --env-file take
// them. Nothing in it is expanded or executed. Where those programs would read a line
// in different ways, it is a problem, not a guess.
type EnvFile struct {
	// Path is as it was given.
	Path string
	// Problems are those of the file itself; each begins with the file and the line.
	Problems Problems
	// Warnings say, with file and line, what works and should not stay as it is.
	Warnings []string

	values []envLine
	// applied has the lines of the variables that the file has set.
	applied map[string]int
	// flags are those of the command line that win over a variable, by its name.
	flags map[string]string
	// environ is the environment without the file.
	environ []string
}

// envLine is one setting of a file.
type envLine struct {
	key, value string
	line       int
}

// ReadEnvFile reads a file: a regular one of at most 64 KiB. It changes nothing.
func ReadEnvFile(path string) *EnvFile {
	read, err := secretfile.ReadFile(path)
	if err != nil {
		return &EnvFile{Path: path, Problems: Problems{fmt.Sprintf("--env-file: %v", err)}}
	}
	f := ParseEnvFile(path, read.Text)
	for _, v := range f.values {
		if read.Open() && isSecret(v.key) && v.value != "" {
			f.Warnings = append(f.Warnings, fmt.Sprintf("%s: %s: everybody on this machine can read the file (mode %04o): chmod 600 %s", f.at(v.line), v.key, read.Mode, path))
		}
	}
	return f
}

// ParseEnvFile reads the text of a file; path is for messages.
func ParseEnvFile(path, text string) *EnvFile {
	f := &EnvFile{Path: path, applied: map[string]int{}}
	if !utf8.ValidString(text) {
		f.Problems.add("%s: is not UTF-8 text", path)
		return f
	}
	n := 0
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		n++
		key, value, err := parseEnvLine(strings.TrimSuffix(line, "\r"))
		if err == nil && key != "" {
			err = f.add(envLine{key, value, n})
		}
		if err != nil {
			f.Problems.add("%s: %v", f.at(n), err)
		}
	}
	return f
}

// at names a line of the file.
func (f *EnvFile) at(line int) string { return f.Path + ":" + strconv.Itoa(line) }

func (f *EnvFile) add(v envLine) error {
	if err := checkKey(v.key); err != nil {
		return err
	}
	for _, former := range f.values {
		if former.key == v.key {
			return fmt.Errorf("%s: is on line %d already", v.key, former.line)
		}
	}
	f.values = append(f.values, v)
	return nil
}

// libraryKeys are variables that libraries of this program read, by their beginnings.
var libraryKeys = regexp.MustCompile(`^(AWS_[A-Z0-9_]+|(HTTPS?|NO)_PROXY|(https?|no)_proxy|SSL_CERT_(FILE|DIR)|GITHUB_TOKEN(_FILE)?)$`)

// librarySecrets are those among them whose values are never shown.
var librarySecrets = regexp.MustCompile(`SECRET|TOKEN$|(?i:_PROXY$)`)

func checkKey(key string) error {
	known := Variables()
	switch {
	case key == envFileVariable:
		return fmt.Errorf("%s: a file of settings cannot name another", key)
	case libraryKeys.MatchString(key), slices.ContainsFunc(known, func(v Variable) bool { return v.Name == key }):
		return nil
	case strings.HasPrefix(key, prefix+"_"):
		return fmt.Errorf("%.80s: unknown variable%s", key, didYouMean(key, known))
	case !variableName.MatchString(key):
		key = "variable" // rather than what may be a secret, pasted alone
	}
	return fmt.Errorf("%s: nothing here reads it: want DOCGAUGE_…, AWS_…, HTTPS_PROXY, NO_PROXY, SSL_CERT_FILE, SSL_CERT_DIR or GITHUB_TOKEN", key)
}

// variableName is how variables are named, and secrets are not.
var variableName = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,39}$`)

func isSecret(key string) bool {
	if libraryKeys.MatchString(key) {
		return librarySecrets.MatchString(key)
	}
	return slices.ContainsFunc(Variables(), func(v Variable) bool { return v.Name == key && v.Secret })
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
		return "", "", errors.New(`write KEY=VALUE without "export": the file is no script`)
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

// unquote returns what a value stands for. Inside double quotes a backslash quotes
// \ " $ and `, as in systemd; inside single quotes it is itself.
func unquote(value string) (string, error) {
	if value == "" || value[0] != '"' && value[0] != '\'' {
		return plainValue(value)
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

// plainValue refuses what systemd, docker and compose read differently without quotes.
func plainValue(value string) (string, error) {
	switch {
	case strings.Contains(value, `\`):
		return "", errors.New(`programs disagree on \ outside quotes: write it in 'single quotes'`)
	case strings.HasPrefix(value, "#"), strings.Contains(value, " #"), strings.Contains(value, "\t#"):
		return "", errors.New("a comment needs a line of its own; quote the value if # belongs to it")
	}
	return value, nil
}

// QuoteEnv writes a value so that it is read back as it is, by systemd too.
func QuoteEnv(value string) string {
	if back, err := unquote(value); err == nil && back == value && strings.TrimSpace(value) == value && !strings.ContainsAny(value, " \t'\"") {
		return value
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(value) + `"`
}

// Override sets a variable to what a flag of the command line says, which wins over the
// environment and over the file; empty: its default. It is called before Apply.
func (f *EnvFile) Override(variable, flag, value string) error {
	if f.flags == nil {
		f.flags = map[string]string{}
	}
	f.flags[variable] = flag
	if value == "" {
		return os.Unsetenv(variable)
	}
	return os.Setenv(variable, value)
}

// Apply sets the variables of the file in the environment of this process, except those
// that it has: the process environment wins. A secret and its _FILE are one setting in
// this. Libraries read their variables only there.
func (f *EnvFile) Apply() error {
	f.environ = os.Environ()
	return setEnviron(f.over(f.environ))
}

// over returns an environment with the variables of the file that it does not have.
func (f *EnvFile) over(environ []string) []string {
	has := map[string]bool{}
	for _, pair := range environ {
		key, value, _ := strings.Cut(pair, "=")
		has[key] = counts(key, value)
	}
	out := slices.Clone(environ)
	for _, v := range f.values {
		if !has[v.key] && !has[otherForm(v.key)] && f.flags[v.key] == "" {
			out = append(out, v.key+"="+v.value)
			f.applied[v.key] = v.line
		}
	}
	return out
}

// setEnviron makes an environment that of this process; of two values of a variable the
// last is taken. What stays the same is not touched, because libraries read it meanwhile.
func setEnviron(environ []string) error {
	wanted := map[string]string{}
	for _, pair := range environ {
		key, value, _ := strings.Cut(pair, "=")
		wanted[key] = value
	}
	for _, pair := range os.Environ() {
		key, _, _ := strings.Cut(pair, "=")
		if _, keep := wanted[key]; !keep {
			if err := os.Unsetenv(key); err != nil {
				return err
			}
		}
	}
	for key, value := range wanted {
		if now, set := os.LookupEnv(key); set && now == value {
			continue
		}
		if err := os.Setenv(key, value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

// otherForm is the variable that gives the same secret as a file, or as itself; empty
// where there is none.
func otherForm(key string) string {
	switch plain := strings.TrimSuffix(key, "_FILE"); {
	case isSecret(key):
		return key + "_FILE"
	case isSecret(plain):
		return plain
	}
	return ""
}

// inEnvironment reports whether the process environment sets a variable. An empty one
// counts as unset, but for that which has a meaning.
func inEnvironment(key string) bool {
	text, set := os.LookupEnv(key)
	return set && counts(key, text)
}

// counts reports whether a variable with this value counts as set.
func counts(key, value string) bool {
	return value != "" || key == openWindowsVariable || !strings.HasPrefix(key, prefix)
}

// Overrides lists the variables of the file that the process environment overrides.
func (f *EnvFile) Overrides() (keys []string) {
	for _, v := range f.values {
		if f.applied[v.key] == 0 {
			keys = append(keys, v.key)
		}
	}
	return keys
}

// locate puts file and line before each problem with a value of the file, and the flag
// before one with a value of the command line.
func (f *EnvFile) locate(p Problems) {
	for i, text := range p {
		key, _, _ := strings.Cut(text, ":")
		key, _, _ = strings.Cut(key, ",")
		if line := f.applied[key]; line > 0 {
			p[i] = f.at(line) + ": " + text
		}
		if flag := f.flags[key]; flag != "" {
			p[i] = flag + ": " + text
		}
	}
}
