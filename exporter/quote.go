package exporter

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"github.com/prometheus/common/config"
)

const (
	// maxQuoted is the maximum length of a quoted answer in bytes.
	maxQuoted = 300
	// shortestSecret excludes words that are too short to be secret.
	shortestSecret = 4
)

// Quote returns the beginning of the answer to a request, for an error: on one line, without
// control characters and without the credentials in the headers of the request.
func Quote(r *http.Request, answer string) string {
	for name, values := range r.Header {
		if _, known := config.ReservedHeaders[name]; known && name != "Authorization" {
			continue // not a secret
		}
		for _, value := range values {
			scheme, token, _ := strings.Cut(value, " ")
			secrets := []string{value, token}
			if both, err := base64.StdEncoding.DecodeString(token); err == nil && strings.EqualFold(scheme, "basic") {
				_, password, _ := strings.Cut(string(both), ":")
				secrets = append(secrets, password, url.QueryEscape(password))
			}
			for _, secret := range secrets {
				if len(secret) >= shortestSecret {
					answer = strings.ReplaceAll(answer, secret, "…")
				}
			}
		}
	}
	answer = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(answer, "\uFFFD"),
		func(c rune) bool { return c <= ' ' || c >= 0x7f && c < 0xa0 }), " ")
	if len(answer) > maxQuoted {
		answer = strings.ToValidUTF8(answer[:maxQuoted], "") + "…"
	}
	return answer
}
