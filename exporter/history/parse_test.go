package history_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"pgregory.net/rapid"
)

// series is one parsed series.
type series struct {
	name    string // with its labels, unparsed
	labels  map[string]string
	samples map[int64]float64
	times   []int64
}

var (
	sampleLine = regexp.MustCompile(`^(([a-z_]+)\{(.*)\}) (-?[0-9]+) (-?[0-9]+)$`)
	labelPair  = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)",?`)
	unescaper  = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")
)

// parse returns the series of a text by their key. It takes only text whose families and series are
// each in one piece and in
// order of time, and which ends.
func parse(t rapid.TB, text string) map[string]*series {
	body, ended := strings.CutSuffix(text, "# EOF\n")
	if !ended {
		t.Fatalf("does not end in # EOF: %q", text[max(0, len(text)-200):])
	}
	all := map[string]*series{}
	families := map[string]bool{}
	var family string
	var current *series
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	for n := 0; n < len(lines) && body != ""; n++ {
		if name, is := strings.CutPrefix(lines[n], "# TYPE "); is {
			family, _ = strings.CutSuffix(name, " gauge")
			if families[family] || n+2 >= len(lines) || !strings.HasPrefix(lines[n+1], "# HELP "+family+" ") {
				t.Fatalf("line %d: %q begins no new gauge with a help text", n, lines[n])
			}
			families[family] = true
			n++
			continue
		}
		m := sampleLine.FindStringSubmatch(lines[n])
		if m == nil || m[2] != family {
			t.Fatalf("line %d of %s: %q", n, family, lines[n])
		}
		if current == nil || current.name != m[1] {
			if all[key(pairs(t, m[2], m[3]))] != nil {
				t.Fatalf("line %d: %s continues after other families", n, m[1])
			}
			current = &series{name: m[1], labels: pairs(t, m[2], m[3]), samples: map[int64]float64{}}
			all[key(current.labels)] = current
		}
		current.add(t, m[4], m[5])
	}
	return all
}

func pairs(t rapid.TB, name, text string) map[string]string {
	labels := map[string]string{"__name__": name}
	rest := 0
	for _, m := range labelPair.FindAllStringSubmatch(text, -1) {
		labels[m[1]] = unescaper.Replace(m[2])
		rest += len(m[0])
	}
	if rest != len(text) {
		t.Fatalf("labels %s", text)
	}
	return labels
}

func (w *series) add(t rapid.TB, value, at string) {
	v, err := strconv.ParseFloat(value, 64)
	if err != nil {
		t.Fatal(err)
	}
	second, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(w.times); n > 0 && w.times[n-1] >= second {
		t.Fatalf("%s: %d after %d", w.name, second, w.times[n-1])
	}
	w.times = append(w.times, second)
	w.samples[second] = v
}

// key names a series, whatever the order of its labels.
func key(labels map[string]string) string { return fmt.Sprint(labels) }
