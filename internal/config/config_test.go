package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kelseyhightower/envconfig"
)

// FuzzConfig: no value of any variable makes the configuration panic, and a bad
// secret is never in what is said about it.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{"", "day,week", "28d:totals", "-1", "1GiB", "72h", "prj_a,prj_b", "2026-02-30", "a_b", "\x00", "https://x/?k=v", "999999999999999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		for _, d := range []envconfig.Decoder{new(Windows), new(OpenWindows), new(Projects), new(Duration), new(Count), new(Bytes), new(ProjectNames), new(Sinks), new(LogFormat), new(OptionalDate)} {
			err := d.Decode(value)
			if err != nil && len(err.Error()) > 1200 {
				t.Errorf("%T: a message of %d bytes", d, len(err.Error()))
			}
		}
		if strings.ContainsRune(value, 0) || len(value) < 8 {
			return // no environment has it; too short to be told from the message
		}
		clearVariables(t)
		t.Setenv("DOCGAUGE_API_KEY", value)
		c, err := Load(NeedAPI, time.Now())
		if err != nil && strings.Contains(err.Error(), value) && !strings.Contains("want <prefix>_<secret>, printable ASCII without spaces, as the API keys page of the dashboard shows it", value) {
			t.Errorf("the message shows the key: %v", err)
		}
		if c.BaseURL != "" {
			t.Error("a base URL from nowhere")
		}
	})
}

func clearVariables(t *testing.T) {
	for _, v := range Variables() {
		if old, set := os.LookupEnv(v.Name); set {
			t.Setenv(v.Name, old) // put back at the end
			os.Unsetenv(v.Name)
		}
	}
}

// TestSecretIsNotPrinted: no formatting of the configuration shows a key.
func TestSecretIsNotPrinted(t *testing.T) {
	const key = "sbx_not-to-be-seen"
	c := Config{APIKey: key}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", c.APIKey, "config", c)
	for _, said := range []string{string(text), log.String(), fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%s %q %v", c.APIKey, c.APIKey, &c)} {
		if strings.Contains(said, "not-to-be-seen") {
			t.Errorf("the key is shown: %s", said)
		}
	}
}
