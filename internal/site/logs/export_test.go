package logs

import (
	"testing"
	"time"
)

// Hit is a request of the generator.
type Hit struct {
	At                        time.Time
	Client, Host, Path, Agent string
	Status                    int
}

// Hits are the requests that every format writes.
func Hits() (all []Hit) {
	for _, h := range truth() {
		all = append(all, Hit{h.at, h.client, h.host, h.path, h.agent, h.status})
	}
	return all
}

// TextOf returns the requests as a format writes them, and whether it says the host.
func TextOf(t *testing.T, name string) (text string, saysHost bool) {
	t.Helper()
	for _, f := range allFormats {
		if f.name == name {
			return f.text(truth()), !f.lacksHost
		}
	}
	t.Fatalf("there is no format %q", name)
	return "", false
}
