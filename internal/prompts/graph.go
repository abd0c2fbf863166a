package prompts

import (
	"crypto/sha256"
	"os"
	"slices"
	"strings"
)

// graph checks the rules between files: one file under several names, duplicate ids, and
// dependencies.
type graph struct {
	files    []*file            // those that count, by path
	byID     map[string][]*file // including files that are changing
	invalid  map[*file]bool
	findings []Finding
}

func (g *graph) find(f *file, line int, text string) {
	g.findings = append(g.findings, Finding{Path: printable(f.path), Line: line, Text: text})
	g.invalid[f] = true
}

// check collects the findings of files and of the rules between them. known is Rules.Known.
func (g *graph) check(known func(ids []string) []string) {
	var missing []string
	for _, f := range g.files {
		if len(f.findings) > 0 {
			g.findings = append(g.findings, f.findings...)
			g.invalid[f] = true
		}
		for _, id := range f.prompt.DependsOn {
			if len(g.byID[id]) == 0 {
				missing = append(missing, id)
			}
		}
	}
	var former []string // ids without a file that were prompts once
	if len(missing) > 0 && known != nil {
		former = known(missing)
	}
	g.duplicateFiles()
	for _, f := range g.files {
		// All files with the same id are invalid.
		var others []string
		for _, other := range g.byID[f.prompt.ID] {
			if other != f && !other.changing {
				others = append(others, printable(other.path))
			}
		}
		if len(others) > 0 {
			g.find(f, f.prompt.idLine, "id: "+f.prompt.ID+" is also the id of "+join(others)+": give each its own")
		}
		for i, id := range f.prompt.DependsOn {
			line := f.prompt.dependsLines[i]
			on := g.byID[id]
			switch {
			case id == f.prompt.ID:
				g.find(f, line, "depends_on: "+id+" is the prompt itself: remove it")
			case len(on) == 0 && !slices.Contains(former, id):
				g.find(f, line, "depends_on: no prompt has the id "+id+
					": write the id of one, or its path if it has none")
			case len(on) > 0 && on[0].prompt.Recurs():
				g.find(f, line, "depends_on: "+id+" has a schedule and so never ends: remove it")
			}
		}
	}
	g.cycles()
	// A prompt is invalid if it depends on an invalid one, and so on.
	dependents := map[string][]*file{}
	var invalid []*file
	for _, f := range g.files {
		for _, id := range f.prompt.DependsOn {
			dependents[id] = append(dependents[id], f)
		}
		if g.invalid[f] {
			invalid = append(invalid, f)
		}
	}
	for ; len(invalid) > 0; invalid = invalid[1:] {
		id := invalid[0].prompt.ID
		for _, f := range dependents[id] {
			if g.invalid[f] {
				continue
			}
			line := f.prompt.dependsLines[slices.Index(f.prompt.DependsOn, id)]
			g.find(f, line, "depends_on: "+id+" is invalid: fix "+printable(invalid[0].path)+" first")
			invalid = append(invalid, f)
		}
	}
}

// duplicateFiles finds one file under several names, through links: it would be sent once
// for each. A symbolic link to a file that is a prompt already is invalid. Otherwise it is
// not known which name is meant, so all of them are.
func (g *graph) duplicateFiles() {
	type content struct {
		sum      [sha256.Size]byte
		modified int64
	}
	groups := map[content][]*file{}
	for _, f := range g.files {
		if f.info == nil {
			continue
		}
		k := content{f.sum, f.info.ModTime().UnixNano()}
		for _, other := range groups[k] {
			if !os.SameFile(f.info, other.info) {
				continue
			}
			if f.linked || !other.linked {
				g.find(f, 0, "the same file as "+other.path+", through a link: remove one of them")
			}
			if other.linked || !f.linked {
				g.find(other, 0, "the same file as "+f.path+", through a link: remove one of them")
			}
		}
		groups[k] = append(groups[k], f)
	}
}

// cycles finds prompts that wait for each other, depth first. Each cycle is reported once,
// at its first file by path. Its other files are invalid because they depend on that one,
// and so are other cycles through any of its files.
func (g *graph) cycles() {
	var path []*file
	position := map[*file]int{} // in path, plus 1
	done, reported := map[*file]bool{}, map[*file]bool{}
	var visit func(f *file)
	visit = func(f *file) {
		path = append(path, f)
		position[f] = len(path)
		for _, id := range f.prompt.DependsOn {
			on := g.byID[id]
			if len(on) != 1 || on[0].changing {
				continue
			}
			switch next := on[0]; {
			case next == f, done[next]:
			case position[next] == 0:
				visit(next)
			case !reported[f] && !reported[next]:
				cycle, first := path[position[next]-1:], 0
				for i, member := range cycle {
					reported[member] = true
					if member.path < cycle[first].path {
						first = i
					}
				}
				var ids []string
				for _, member := range slices.Concat(cycle[first:], cycle[:first+1]) {
					ids = append(ids, member.prompt.ID)
				}
				p := cycle[first].prompt
				line := p.dependsLines[slices.Index(p.DependsOn, ids[1])]
				g.find(cycle[first], line, "depends_on: a cycle, "+strings.Join(ids, " → ")+": remove one of these")
			}
		}
		path = path[:len(path)-1]
		done[f], position[f] = true, 0
	}
	for _, f := range g.files {
		if !done[f] {
			visit(f)
		}
	}
}
