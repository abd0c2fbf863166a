package prompts

import (
	"slices"
	"strings"
)

// graph checks what only all files together tell: ids that come twice, and what
// depends on what.
type graph struct {
	files    []*file            // those that count, by path
	byID     map[string][]*file // of files and of those that settle
	known    func(string) bool
	bad      map[*file]bool
	findings []Finding
}

func (g *graph) find(f *file, line int, text string) {
	g.findings = append(g.findings, Finding{Path: shown(f.path), Line: line, Text: text})
	g.bad[f] = true
}

// check fills findings and bad with what is wrong between files and in them.
func (g *graph) check() {
	for _, f := range g.files {
		if len(f.findings) > 0 {
			g.findings = append(g.findings, f.findings...)
			g.bad[f] = true
		}
	}
	g.twins()
	for _, f := range g.files {
		g.ids(f)
		g.references(f)
	}
	g.cycles()
	g.infect()
}

// ids finds an id that several files have. Which of them is meant nobody knows,
// so all of them are wrong.
func (g *graph) ids(f *file) {
	var others []string
	for _, other := range g.byID[f.prompt.ID] {
		if other != f && !other.settling {
			others = append(others, shown(other.path))
		}
	}
	if len(others) > 0 {
		g.find(f, f.prompt.idLine, "id: "+f.prompt.ID+" is also that of "+list(others)+": give each its own")
	}
}

func (g *graph) references(f *file) {
	for i, id := range f.prompt.DependsOn {
		line := f.prompt.dependsLines[i]
		on := g.byID[id]
		switch {
		case id == f.prompt.ID:
			g.find(f, line, "depends_on: "+id+" is the prompt itself: remove it")
		case len(on) == 0 && (g.known == nil || !g.known(id)):
			g.find(f, line, "depends_on: no prompt has the id "+id+": write the id of one, or its path if it has none")
		case len(on) > 0 && on[0].prompt.Recurs():
			g.find(f, line, "depends_on: "+id+" has a schedule and so no end: remove it")
		}
	}
}

// infect makes those wrong that depend on a wrong one, and so on.
func (g *graph) infect() {
	dependents := map[string][]*file{}
	for _, f := range g.files {
		for _, id := range f.prompt.DependsOn {
			dependents[id] = append(dependents[id], f)
		}
	}
	var wrong []*file
	for _, f := range g.files {
		if g.bad[f] {
			wrong = append(wrong, f)
		}
	}
	for ; len(wrong) > 0; wrong = wrong[1:] {
		id := wrong[0].prompt.ID
		for _, f := range dependents[id] {
			if g.bad[f] {
				continue
			}
			line := f.prompt.dependsLines[slices.Index(f.prompt.DependsOn, id)]
			g.find(f, line, "depends_on: "+id+" is invalid: mend "+shown(wrong[0].path)+" first")
			wrong = append(wrong, f)
		}
	}
}

// cycles finds prompts that wait for each other. Each cycle is named once, at its
// first file; the others are wrong because they depend on that, and so are other
// cycles through one of them.
func (g *graph) cycles() {
	w := walk{graph: g, at: map[*file]int{}, done: map[*file]bool{}, named: map[*file]bool{}}
	for _, f := range g.files {
		if !w.done[f] {
			w.visit(f)
		}
	}
}

// walk goes along depends_on, to the bottom first.
type walk struct {
	*graph
	path  []*file
	at    map[*file]int // index in path, plus 1
	done  map[*file]bool
	named map[*file]bool // part of a cycle that was found
}

func (w *walk) visit(f *file) {
	w.path = append(w.path, f)
	w.at[f] = len(w.path)
	for _, id := range f.prompt.DependsOn {
		next := w.one(id)
		switch {
		case next == nil, next == f, w.done[next]:
		case w.at[next] == 0:
			w.visit(next)
		case !w.named[f] && !w.named[next]:
			ring := w.path[w.at[next]-1:]
			for _, member := range ring {
				w.named[member] = true
			}
			w.cycle(ring)
		}
	}
	w.path = w.path[:len(w.path)-1]
	w.done[f], w.at[f] = true, 0
}

// one returns the only file of an id that counts, or nil.
func (g *graph) one(id string) *file {
	if on := g.byID[id]; len(on) == 1 && !on[0].settling {
		return on[0]
	}
	return nil
}

// cycle reports a cycle, beginning with the file that is first by path.
func (g *graph) cycle(files []*file) {
	first := 0
	for i, f := range files {
		if f.path < files[first].path {
			first = i
		}
	}
	ring := slices.Concat(files[first:], files[:first+1])
	ids := make([]string, len(ring))
	for i, f := range ring {
		ids[i] = f.prompt.ID
	}
	i := slices.Index(ring[0].prompt.DependsOn, ids[1])
	g.find(ring[0], ring[0].prompt.dependsLines[i], "depends_on: a cycle, "+strings.Join(ids, " → ")+": remove one of these")
}
