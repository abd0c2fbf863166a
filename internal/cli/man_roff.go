package cli

import "strings"

// prose fills text, but leaves lines that are indented as they are.
func prose(text string) string {
	var b strings.Builder
	asIs := false
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		line = strings.TrimRight(line, "\n")
		switch indented := strings.HasPrefix(line, "  "); {
		case indented && !asIs:
			b.WriteString(".PP\n.nf\n.RS\n")
			asIs = true
		case !indented && asIs:
			b.WriteString(".RE\n.fi\n.PP\n")
			asIs = false
		}
		switch {
		case line != "":
			b.WriteString(roff(strings.TrimPrefix(line, "  ")) + "\n")
		case !strings.HasSuffix(b.String(), ".PP\n"):
			b.WriteString(".PP\n")
		}
	}
	if asIs {
		b.WriteString(".RE\n.fi\n")
	}
	return b.String()
}

// roff escapes text for a line of its own, or a part of one.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
