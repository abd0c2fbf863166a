package render

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/docgauge/docgauge/internal/view"
)

// ASCII has the signs of tables in a terminal.
var ASCII = strings.NewReplacer("–", "-", "−", "-")

// Signed writes a change: +12, -1,300, 0.
func Signed(n int64) string { return ASCII.Replace(view.Signed(n)) }

// Percent writes a change in percent: +2.1%, -13.0%, 0.0%; - where there was nothing.
func Percent(p *float64) string {
	switch {
	case p == nil:
		return "-"
	case *p > 0:
		return fmt.Sprintf("+%.1f%%", *p)
	}
	return fmt.Sprintf("%.1f%%", *p)
}

// CommandName is the name that this program was started with, for a shell.
func CommandName() string {
	if name := os.Args[0]; strings.HasPrefix(filepath.Base(name), "docgauge") {
		return ShellWord(name)
	}
	return "docgauge"
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// ShellWord quotes text so that a shell takes it as one word.
func ShellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// CronWord quotes a word for a crontab, where % ends the command.
func CronWord(word string) string { return strings.ReplaceAll(ShellWord(word), "%", `\%`) }

// SystemdWord quotes a word for a unit of systemd.
func SystemdWord(word string) string {
	word = strings.NewReplacer("%", "%%", "$", "$$").Replace(word)
	if plainWord.MatchString(word) {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}
