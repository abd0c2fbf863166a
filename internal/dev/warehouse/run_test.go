package warehouse

import (
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// check compares an engine's answer to a recipe with the answer that the page shows.
func check(t *testing.T, b block, got table) {
	t.Helper()
	want := shown(t)[b.name]
	if len(want.Rows) == 0 {
		t.Fatalf("the page shows no result of %s", b.name)
	}
	if diff := cmp.Diff(want, alike(want, got)); diff != "" {
		t.Errorf("%s (-shown +answered):\n%s\n%s", b.name, diff, b.body)
	}
}

// alike writes the values of got in the style of want: engines print booleans as
// 1, t or true, and 24.0 as 24.
func alike(want, got table) table {
	out := table{Columns: got.Columns}
	for i, row := range got.Rows {
		next := append([]string(nil), row...)
		for j := range next {
			if i < len(want.Rows) && j < len(want.Rows[i]) {
				next[j] = like(want.Rows[i][j], next[j])
			}
		}
		out.Rows = append(out.Rows, next)
	}
	return out
}

func like(want, got string) string {
	switch {
	case want == "true" && (got == "1" || got == "t"), want == "false" && (got == "0" || got == "f"):
		return want
	case strings.Contains(want, "."):
		if f, err := strconv.ParseFloat(got, 64); err == nil {
			return strconv.FormatFloat(f, 'f', 1, 64)
		}
	}
	return got
}

// recipe is the input of a script of testdata.
type recipe struct {
	Name string `json:"name"`
	Code string `json:"code"`
}

// script runs the recipes in a program, and checks the tables.
func script(t *testing.T, dir string, cmd *exec.Cmd, setup string, blocks []block) {
	t.Helper()
	for i, got := range tables(t, dir, cmd, setup, blocks...) {
		t.Run(blocks[i].name, func(t *testing.T) { check(t, blocks[i], got) })
	}
}

// tables passes the setup and the recipes to a program, which runs them in dir and
// prints a table for each.
func tables(t *testing.T, dir string, cmd *exec.Cmd, setup string, blocks ...block) []table {
	t.Helper()
	input := struct {
		Setup   string   `json:"setup"`
		Recipes []recipe `json:"recipes"`
	}{Setup: setup}
	for _, b := range blocks {
		input.Recipes = append(input.Recipes, recipe{b.name, b.body})
	}
	text, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, strings.NewReader(string(text)), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd.Path, err, stderr.String())
	}
	var got []table
	if err := json.Unmarshal(out, &got); err != nil || len(got) != len(blocks) {
		t.Fatalf("%s answers %q: %v", cmd.Path, out, err)
	}
	return got
}
