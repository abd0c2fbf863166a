package engines

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// verdict records how Need ended a test.
type verdict struct {
	testing.TB
	how, text string
}

func (*verdict) Helper()             {}
func (v *verdict) Skip(args ...any)  { v.how, v.text = "skip", fmt.Sprint(args...) }
func (v *verdict) Fatal(args ...any) { v.how, v.text = "fatal", fmt.Sprint(args...) }

func TestNeed(t *testing.T) {
	missing := fmt.Errorf("start: %w", Missing{Engine: "clickhouse-server", Install: installer})
	for _, tc := range []struct {
		err  error
		ci   string
		want string
	}{
		{nil, "", ""},
		{nil, "true", ""},
		{missing, "", "skip"},
		{missing, "true", "fatal"},
		{errors.New("broken"), "", "fatal"},
	} {
		t.Setenv("CI", tc.ci)
		var got verdict
		Need(&got, tc.err)
		if got.how != tc.want {
			t.Errorf("Need(%v) with CI=%q: %q, want %q", tc.err, tc.ci, got.how, tc.want)
		}
		if tc.want == "skip" && !strings.Contains(got.text, "make engines") {
			t.Errorf("Need: %q does not say how to install", got.text)
		}
	}
}

func TestProgramThatIsNotThere(t *testing.T) {
	_, err := program("no-such-engine")
	var missing Missing
	if !errors.As(err, &missing) || missing.Engine != "no-such-engine" {
		t.Errorf("program: %v, want a Missing that names it", err)
	}
}
