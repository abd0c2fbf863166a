package cli

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/dev/testbed"
)

// TestStatusNamesSinksInOrder: the sinks that lack windows come in the order of the configuration.
func TestStatusNamesSinksInOrder(t *testing.T) {
	log := new(testbed.Log)
	a := newProgram(log)
	r := coverage.Status{Sinks: config.Sinks{"h", "b", "e", "a", "g", "d", "c", "f"}, Owed: map[string]int{}}
	var want []string
	for i, name := range r.Sinks {
		r.Owed[name] = i % 4
		if i%4 > 0 {
			want = append(want, name)
		}
	}
	check(t, a.printStatus(r, wording{}))
	var got []string
	for _, found := range regexp.MustCompile(`sink (\w) lacks`).FindAllStringSubmatch(log.String(), -1) {
		got = append(got, found[1])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
