package docsapi

import "strings"

const (
	echoed = "[prompt]"
	// minEcho is how long a piece of the prompt must be, in bytes, to be taken for
	// one: shorter ones are words that everybody uses.
	minEcho = 24
)

// withoutPrompt replaces what text repeats of prompt: services quote what they
// refuse. Both are on one line, as oneLine makes it.
func withoutPrompt(text, prompt string) string {
	size := min(minEcho, len(prompt))
	if size < minSecret || len(text) < size {
		return text
	}
	pieces := make(map[string]bool, len(text)) // of text: whether prompt has them
	for i := range len(text) - size + 1 {
		pieces[text[i:i+size]] = false
	}
	for i := range len(prompt) - size + 1 {
		if _, ok := pieces[prompt[i:i+size]]; ok {
			pieces[prompt[i:i+size]] = true
		}
	}
	var out strings.Builder
	end, found := 0, false // of the last piece
	for i := range len(text) - size + 1 {
		if !pieces[text[i:i+size]] {
			continue
		}
		if i > end || !found {
			out.WriteString(text[end:i] + echoed)
		}
		end, found = i+size, true
	}
	return strings.ToValidUTF8(out.String()+text[end:], "")
}
