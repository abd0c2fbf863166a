package count

import (
	"strconv"
	"strings"
)

// prefersMarkdown reports whether an Accept header gives text/markdown a greater q than text/html.
func prefersMarkdown(accept string) bool {
	const exact, group, all = 3, 2, 1
	var markdown, html float64
	var known int // how exactly html is known
	for part := range strings.SplitSeq(accept, ",") {
		media, parameters, _ := strings.Cut(part, ";")
		q := 1.0
		for parameter := range strings.SplitSeq(parameters, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
			if strings.EqualFold(strings.TrimSpace(name), "q") {
				n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				if err != nil || !(n >= 0 && n <= 1) {
					n = 0
				}
				q = n
			}
		}
		how := 0
		switch strings.ToLower(strings.TrimSpace(media)) {
		case "text/markdown":
			markdown = max(markdown, q)
		case "text/html":
			how = exact
		case "text/*":
			how = group
		case "*/*":
			how = all
		}
		if how > known {
			known, html = how, q
		}
	}
	return markdown > html
}
