package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/journal"
)

// maxLine is the maximum length of a line of a Slack message, in characters.
const maxLine = 1000

// Encode returns the body of a POST: the event itself with the id of the delivery, or the
// message of an incoming webhook of Slack: {"text": …}.
func Encode(f config.NotifyFormat, n journal.Event) []byte {
	if f == config.NotifySlack {
		return slackMessage(n)
	}
	// The body is a JSON object, which is kept unchanged.
	b := bytes.TrimSuffix(bytes.TrimSpace(n.Body), []byte("}"))
	b = append(bytes.Clone(b), fmt.Sprintf(`,"delivery":%q`, delivery(n))...)
	if n.InDoubt > 0 {
		b = append(b, `,"possibly_repeated":true`...)
	}
	return append(b, '}')
}

func slackMessage(n journal.Event) []byte {
	var said struct {
		Text  string   `json:"text"`
		Lines []string `json:"lines"`
	}
	if err := json.Unmarshal(n.Body, &said); err != nil || said.Text == "" {
		said.Text = "docgauge: " + n.Kind
	}
	lines := append([]string{said.Text}, said.Lines...)
	for i := range lines {
		lines[i] = escapeSlack(lines[i])
	}
	if n.InDoubt > 0 {
		lines = append(lines, "(possibly repeated: an earlier delivery was not confirmed; id "+delivery(n)+")")
	}
	body, _ := json.Marshal(struct { // strings and booleans are always JSON
		Text string `json:"text"`
		// Without markup an asterisk in a path is an asterisk.
		Markup bool `json:"mrkdwn"`
	}{Text: strings.Join(lines, "\n")})
	return body
}

var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// escapeSlack returns one line of text that Slack shows literally: no mention and no
// link with another text can come from a path, a title or an error. A URL in it becomes a
// link to itself.
func escapeSlack(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	return slackEscapes.Replace(format.Cut(text, maxLine))
}
