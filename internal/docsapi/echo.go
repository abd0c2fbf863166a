package docsapi

import "strings"

const (
	echoed = "[prompt]"
	// minEcho is how long a piece of the prompt must be, in bytes, to be taken for
	// one: shorter ones are words that everybody uses.
	minEcho = 24
)

// withoutPrompt replaces what text repeats of prompt: services quote what they
// refuse. Both have been through withoutKey.
func withoutPrompt(text, prompt string) string {
	size := min(minEcho, len(prompt))
	if size < minSecret || len(text) < size {
		return text
	}
	pieces := make(map[string]struct{}, len(prompt))
	for i := range len(prompt) - size + 1 {
		pieces[prompt[i:i+size]] = struct{}{}
	}
	var out strings.Builder
	end, found := 0, false // of the last piece
	for i := range len(text) - size + 1 {
		if _, ok := pieces[text[i:i+size]]; !ok {
			continue
		}
		if i > end || !found {
			out.WriteString(text[end:i] + echoed)
		}
		end, found = i+size, true
	}
	return strings.ToValidUTF8(out.String()+text[end:], "")
}
