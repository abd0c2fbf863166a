package outcomes

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/internal/view"
)

// modelled is a page with what statsmodels needs to estimate the effect on it.
type modelled struct {
	Name   string      `json:"-"`
	Before int         `json:"before"`
	Date   []float64   `json:"date"`
	Series []float64   `json:"series"`
	Donors [][]float64 `json:"donors"`
	Ridge  float64     `json:"ridge"`

	truth, change, deviation, scale float64
	expected                        float64 // without the correction for how the page moved before
	effect                          view.Effect
}

// estimates are what statsmodels says of a page.
type estimates struct {
	Weighted   float64 `json:"weighted"`
	Structural float64 `json:"structural"`
	Level      struct {
		Change    float64 `json:"change"`
		Deviation float64 `json:"deviation"`
	} `json:"level"`
}

// TestStatsmodels: statsmodels and scipy find the same weights and the same regression, and
// the model of CausalImpact finds an effect of the same sign, within the interval.
func TestStatsmodels(t *testing.T) {
	python := filepath.Join("..", "..", ".tools", "outcome", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		engines.Need(t, engines.Missing{Engine: "statsmodels", Install: "make engines"})
	}
	cases := modelledPages(t)
	input, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, filepath.Join("testdata", "estimate.py"))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), os.Stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []estimates
	if err := json.Unmarshal(output, &got); err != nil || len(got) != len(cases) {
		t.Fatalf("%.200s: %v", output, err)
	}
	within := 0
	for i, c := range cases {
		e := c.effect
		t.Logf("| %s | %+.1f %% | %+.1f %% | %+.1f to %+.1f %% | %+.1f %% | %+.1f %% |", c.Name, 100*c.truth,
			100*e.Change, 100*e.Low, 100*e.High, 100*got[i].Structural, 100*math.Expm1(got[i].Level.Change))
		if math.Abs(got[i].Weighted/c.expected-1) > 0.002 {
			t.Errorf("%s: %.3f readers expected, with exact weights %.3f", c.Name, c.expected, got[i].Weighted)
		}
		if math.Abs(got[i].Level.Change-c.change) > 1e-5 ||
			math.Abs(got[i].Level.Deviation*got[i].Level.Deviation/c.deviation/c.deviation*c.scale-1) > 1e-3 {
			t.Errorf("%s: level %+v, want %v and %v", c.Name, got[i].Level, c.change, c.deviation)
		}
		if e.Tone() != "" && (got[i].Structural > 0) != (e.Change > 0) {
			t.Errorf("%s: %+.3f, of statsmodels %+.3f", c.Name, e.Change, got[i].Structural)
		}
		if corrected := (1+got[i].Structural)*c.expected/e.Expected - 1; e.Low <= corrected && corrected <= e.High {
			within++
		}
	}
	if within < len(cases)*2/3 {
		t.Errorf("%d of %d estimates of statsmodels are within the interval", within, len(cases))
	}
}

func modelledPages(t *testing.T) (cases []*modelled) {
	for _, site := range []struct {
		name string
		traffic
	}{{"steady", sandboxTraffic(sandbox.Steady, 640)}, {"restless", restless.site}} {
		for seed := range uint64(1) {
			p := site.traffic(t, seed+100)
			r := rand.New(rand.NewPCG(seed, 17))
			paths := p.eligible(40, 400)
			for i, truth := range []float64{0, 0.3, -0.2, 0, 0.3, 1} {
				path := paths[i*len(paths)/6]
				visitors := p.pages[path][analytics.Human]
				former := slices.Clone(visitors)
				for d := 2 * span; d < len(visitors); d++ {
					visitors[d] = changed(r, visitors[d], truth)
				}
				cases = append(cases, model(t, p, path, truth))
				cases[len(cases)-1].Name = site.name + " " + path
				copy(visitors, former)
			}
		}
	}
	return cases
}

func model(t *testing.T, p *panel, path string, truth float64) *modelled {
	m := view.Merge{Project: "prj_a", At: mergeDate.Time(), Pages: []string{path}}
	s := newStudy(p, m, []view.Merge{m})
	w, _ := s.window(path, analytics.Human)
	d, index := s.in(w, analytics.Human)
	c := s.comparison(w, analytics.Human)
	out := &modelled{
		Before: d.before, Date: d.date, Series: s.series(path, analytics.Human, index), Donors: c.donors,
		truth: truth, effect: estimateOne(p, path),
	}
	_, expected := c.compare(out.Series, -1)
	out.expected = mean(expected[d.before:])
	out.Ridge = 1/mean(out.Series[:d.before]) + mean(c.noise)
	var err error
	if out.change, out.deviation, out.scale, err = levelScale(d, out.Series); err != nil {
		t.Fatal(err)
	}
	return out
}

// levelScale returns the change of level and its deviation, and how many times as large its variance is as the
// variance of days that do not depend on each other.
func levelScale(d days, series []float64) (change, deviation, scale float64, err error) {
	l, freedom, expected, err := levelChange(d, series)
	change, deviation = l.change, math.Sqrt(l.variance)
	square := 0.0
	for i := range series {
		fitted := expected[i]
		if i >= d.before {
			fitted *= math.Exp(change)
		}
		square += (series[i] - fitted) * (series[i] - fitted) / fitted
		expected[i] = fitted
	}
	return change, deviation, dispersion(series, expected, freedom) / (square / freedom), err
}
