package prompts

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
)

func TestRanking(t *testing.T) {
	former := []analytics.Row{
		{Path: "/same", Human: 5, AI: 5, Total: 9},
		{Path: "/a-gone", Human: 7, AI: 1, Total: 8},
		{Path: "/big", Human: 1000, AI: 100, Total: 1050},
		{Path: "/swap", Human: 50, AI: 10, Total: 55},
		{Path: "/b", Total: 10}, {Path: "/a", Total: 10},
	}
	next := []analytics.Row{
		{Path: "/same", Human: 5, AI: 5, Total: 9},
		{Path: "/new", Human: 2, AI: 6, Total: 8},
		{Path: "/big", Human: 990, AI: 103, Total: 1042},
		{Path: "/swap", Human: 20, AI: 40, Total: 55},
		{Path: "/a", Total: 13}, {Path: "/b", Total: 13},
	}
	for _, tc := range []struct {
		name string
		rank func(former, next []analytics.Row, a Audience, n int) []Change
		by   Audience
		n    int
		want []string
	}{
		{"rising", Rising, Everyone, 10, []string{"/new", "/a", "/b"}},
		{"rising, cut off", Rising, Everyone, 2, []string{"/new", "/a"}},
		{"rising by AI", Rising, AI, 10, []string{"/swap", "/new", "/big"}},
		{"rising by humans", Rising, Human, 10, []string{"/new"}},
		{"falling: of two that lost 8 first the one with more left", Falling, Everyone, 10, []string{"/big", "/a-gone"}},
		{"falling by humans", Falling, Human, 10, []string{"/swap", "/big", "/a-gone"}},
		{"top", Top, Everyone, 3, []string{"/big", "/swap", "/a"}},
		{"top by AI", Top, AI, 2, []string{"/big", "/swap"}},
		{"none", Top, AI, 0, nil},
		{"less than none", Top, AI, -1, nil},
	} {
		for range 20 {
			rand.Shuffle(len(former), func(i, j int) { former[i], former[j] = former[j], former[i] })
			rand.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
			var got []string
			for _, c := range tc.rank(former, next, tc.by, tc.n) {
				got = append(got, c.Path)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Fatalf("%s: %s", tc.name, diff)
			}
		}
	}
	change := Falling(former, next, Everyone, 2)[1]
	if change.By(Everyone) != -8 || change.By(Human) != -7 || change.By(AI) != -1 || change.Before.Total != 8 {
		t.Errorf("a page that is gone: %+v", change)
	}
}
