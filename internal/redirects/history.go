package redirects

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/git"
	"github.com/docgauge/docgauge/internal/journal"
)

// maxVersions is the maximum number of versions of a file of redirects that are read.
const maxVersions = 200

// maxFormer is the maximum number of files that a History remembers. The oldest are left out.
const maxFormer = 300_000

// History has the files of pages in a repository. Paths begin at its root, without a slash.
type History struct {
	// Files are the files that exist now.
	Files []string
	// Former are the files that ended. A file that was made again is among Files too.
	Former map[string]Former
}

// Former is what became of a file.
type Former struct {
	// File is the file that it is today, after all renames; empty if it was deleted.
	File string
	// Alike is the smallest similarity of these renames, in per cent.
	Alike int
	// Day is the day on which the file ended.
	Day string
	// age is the number of commits since then.
	age int
}

// ReadRepository reads the history of a commit, or HEAD. complete is false for a clone without older commits.
func ReadRepository(ctx context.Context, g git.Client, commit string) (h History, complete bool, err error) {
	shallow, err := g.Run(ctx, "rev-parse", "--is-shallow-repository")
	if err != nil {
		return h, false, err
	}
	// Names that git quotes have characters that no rule may have.
	files, err := g.Run(ctx, "ls-tree", "-r", "--name-only", "--full-tree", commit)
	if err != nil {
		return h, false, err
	}
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := g.Stream(ctx, in, "", logArguments(commit)...)
		in.CloseWithError(err)
		done <- err
	}()
	h, err = ReadHistory(out, strings.Split(files, "\n"))
	_ = out.Close() // git ends, should it write on
	return h, shallow == "false", errors.Join(<-done, err)
}

// logArguments returns the arguments of the git command whose output [ReadHistory] reads. The files of a rename are
// compared as the first parent has them, as the site was published.
func logArguments(commit string) []string {
	return slices.Concat([]string{"--no-literal-pathspecs", "-c", "core.quotePath=false", "log",
		"--first-parent", "--diff-merges=first-parent", "-M50%", "-l10000", "--name-status",
		"--diff-filter=DR", "--format=%cs", commit, "--"}, pageSpecs())
}

func pageSpecs() (specs []string) {
	for _, extension := range analytics.PageExtensions {
		specs = append(specs, ":(top)*"+extension) // Dir may be below the top
	}
	return specs
}

type change struct {
	from, to string // to is empty of a file that ended
	alike    int
}

// ReadHistory reads the output of git log: the status and the names of files below the day of each commit, the newest
// commit first. Files are the newest commit's; files that are no pages are left out.
func ReadHistory(log io.Reader, files []string) (History, error) {
	h := History{Former: map[string]Former{}}
	// today is what a file of the commit at hand is today.
	today := map[string]Former{}
	for _, file := range files {
		if _, ok := fileSegments(file); ok {
			h.Files = append(h.Files, file)
			today[file] = Former{File: file, Alike: 100}
		}
	}
	var day string
	var commit []change
	commits := 0
	apply := func() {
		ends := make([]Former, len(commit))
		for i, c := range commit {
			ends[i] = Former{Day: day, age: commits}
			if next, ok := today[c.to]; ok {
				ends[i].File, ends[i].Alike = next.File, min(c.alike, next.Alike)
			}
		}
		for i, c := range commit {
			if _, known := h.Former[c.from]; !known && len(h.Former) < maxFormer {
				h.Former[c.from] = ends[i]
			}
			if delete(today, c.from); ends[i].File != "" {
				today[c.from] = ends[i]
			}
		}
		commit = commit[:0]
		commits++
	}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		status, names, isChange := strings.Cut(lines.Text(), "\t")
		if !isChange {
			if status != "" {
				apply()
				day = status
			}
			continue
		}
		from, to, _ := strings.Cut(names, "\t")
		alike, _ := strconv.Atoi(status[1:])
		commit = append(commit, change{from, to, alike})
	}
	apply()
	if err := lines.Err(); err != nil {
		return h, fmt.Errorf("output of git log: %w", err)
	}
	return h, nil
}

// fileSegments returns the parts of the path of the page that a file becomes, below the folder of the documentation;
// ok reports whether it becomes one. Names keep their numbers.
func fileSegments(file string) (segments []string, ok bool) {
	name, isPage := analytics.CutPageExtension(file)
	if !isPage {
		return nil, false
	}
	folder, base := path.Split(name)
	switch strings.ToLower(withoutNumber(base)) {
	case "index", "_index", "readme":
		name = strings.TrimSuffix(folder, "/")
	}
	if name == "" {
		return nil, true
	}
	return strings.Split(name, "/"), !analytics.PartOfPages(name)
}

// withoutNumber removes the number that orders a file among its siblings: Docusaurus and Nuxt leave it out of paths.
// Dates and versions stay.
func withoutNumber(name string) string {
	rest := strings.TrimLeft(name, "0123456789")
	if after := strings.TrimLeft(rest, "-_. "); rest != name && after != rest && after != "" &&
		(after[0] < '0' || after[0] > '9') {
		return after
	}
	return name
}

// A root is a folder whose files have paths below url; both without a slash at their end.
type root struct{ dir, url string }

// alike reports whether the folder and its path have a name in common.
func (r root) alike() bool {
	return slices.ContainsFunc(strings.Split(r.url, "/"), func(name string) bool {
		return name != "" && slices.ContainsFunc(strings.Split(r.dir, "/"), func(folder string) bool {
			return folder == name || strings.HasSuffix(folder, "-"+name)
		})
	})
}

// below returns the part of a path below a folder.
func below(name, folder string) (rest string, ok bool) {
	if folder == "" || name == folder {
		return strings.TrimPrefix(name, folder), true
	}
	return strings.CutPrefix(name, folder+"/")
}

// paths returns the paths that the page of a file may have, without and with the numbers of names.
func (r root) paths(segments []string) []string {
	rest, ok := below(strings.Join(segments, "/"), r.dir)
	if !ok {
		return nil
	}
	raw := strings.TrimSuffix(r.url+"/"+rest, "/")
	parts := strings.Split(raw, "/")
	for i := range parts {
		parts[i] = withoutNumber(parts[i])
	}
	return slices.Compact([]string{"/" + strings.TrimPrefix(strings.Join(parts, "/"), "/"),
		"/" + strings.TrimPrefix(raw, "/")})
}

// maxRoots is the maximum number of folders that are learned; leastPages the number of pages that only a root
// explains, below which it is taken for chance.
const (
	maxRoots   = 40
	leastPages = 3
)

// learnRoots returns the folders of the documentation, the deepest first: those that explain most pages by a file
// with the longest common end. Then it adds the folders from which these were moved.
func learnRoots(h History, pages []string) (roots []root) {
	type end struct {
		file            int
		segments, words []string
	}
	byName := map[string][]end{}
	words := func(segments []string) (out []string) {
		for _, s := range segments {
			out = append(out, word(s))
		}
		return out
	}
	for i, file := range h.Files {
		if segments, _ := fileSegments(file); len(segments) > 0 {
			e := end{i, segments, words(segments)}
			byName[e.words[len(segments)-1]] = append(byName[e.words[len(segments)-1]], e)
		}
	}
	// A vote is a page and its file; each counts for one root.
	type vote struct{ page, file int }
	votes, pageDone, fileDone := map[root][]vote{}, make([]bool, len(pages)), make([]bool, len(h.Files))
	for i, page := range pages {
		segments := strings.Split(strings.Trim(page, "/"), "/")
		own, longest := words(segments), 1
		var best []end
		for _, e := range byName[own[len(own)-1]] {
			n := commonEnd(own, e.words)
			if n > longest {
				best, longest = best[:0], n
			}
			if n == longest && len(best) <= maxRoots {
				best = append(best, e)
			}
		}
		if len(best) > maxRoots {
			continue // a name that is everywhere tells nothing
		}
		url := strings.TrimSuffix("/"+strings.Join(segments[:len(segments)-longest], "/"), "/")
		for _, e := range best {
			r := root{strings.Join(e.segments[:len(e.segments)-longest], "/"), url}
			votes[r] = append(votes[r], vote{i, e.file})
		}
	}
	for len(roots) < maxRoots {
		var best root
		most := 0
		for r, all := range votes {
			n := 0
			for _, v := range all {
				if !pageDone[v.page] && !fileDone[v.file] {
					n++
				}
			}
			if r.alike() { // folders of versions and languages have the same files: their names decide
				n += n / 2
			}
			if n > most || n == most && n > 0 && (len(r.dir) < len(best.dir) || len(r.dir) == len(best.dir) &&
				r.dir+r.url < best.dir+best.url) {
				best, most = r, n
			}
		}
		if most == 0 || most < leastPages && len(roots) > 0 {
			break
		}
		for _, v := range votes[best] {
			pageDone[v.page], fileDone[v.file] = true, true
		}
		delete(votes, best)
		roots = append(roots, best)
	}
	return deepest(append(roots, formerRoots(h, roots)...))
}

func deepest(roots []root) []root {
	slices.SortStableFunc(roots, func(a, b root) int { return len(b.dir) - len(a.dir) })
	return roots
}

// formerRoots returns the folders that held the files of roots before the whole folder was moved.
func formerRoots(h History, roots []root) (out []root) {
	roots = deepest(slices.Clone(roots))
	votes := map[root]int{}
	for old, former := range h.Former {
		if former.File == "" || slices.ContainsFunc(roots, func(r root) bool {
			_, ok := below(old, r.dir)
			return ok && r.dir != ""
		}) {
			continue
		}
		for _, r := range roots {
			rest, ok := below(former.File, r.dir)
			if !ok {
				continue
			}
			if dir, same := strings.CutSuffix("/"+old, "/"+rest); same && strings.Trim(dir, "/") != r.dir {
				votes[root{strings.Trim(dir, "/"), r.url}]++
			}
			break
		}
	}
	best := map[string]root{}
	for r, n := range votes {
		if former, taken := best[r.dir]; n >= leastPages && (!taken || votes[former] < n ||
			votes[former] == n && r.url < former.url) {
			best[r.dir] = r
		}
	}
	for _, r := range best {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b root) int { return strings.Compare(a.dir, b.dir) })
	return out
}

// filePaths returns the paths that the page of a file may have; the deepest root decides.
func filePaths(roots []root, file string) []string {
	segments, ok := fileSegments(file)
	if !ok {
		return nil
	}
	for _, r := range roots {
		if paths := r.paths(segments); paths != nil {
			return paths
		}
	}
	return nil
}

func commonEnd(a, b []string) (n int) {
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// Began returns the rules of a file at a commit that lead from one path to one page, sorted. Since is the time of the
// commit that brought the rule, on the way of first parents: the merge, if it came with a pull request. Rules that may be
// older than the versions that can be read are left out.
func Began(ctx context.Context, g git.Client, commit string, named Format, file string) ([]journal.Redirect, error) {
	shallow, err := g.Run(ctx, "rev-parse", "--is-shallow-repository")
	if err != nil {
		return nil, err
	}
	log, err := g.Run(ctx, "log", "--first-parent", "--format=%H %ct", fmt.Sprintf("--max-count=%d", maxVersions), commit,
		"--", file)
	if err != nil || log == "" {
		return nil, err
	}
	versions := strings.Split(log, "\n")
	var out []journal.Redirect
	since := map[journal.Redirect]time.Time{} // of the rules that all versions have so far
	for i, version := range versions {        // the newest first
		id, seconds, _ := strings.Cut(version, " ")
		unix, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil {
			return nil, err
		}
		var text bytes.Buffer
		if err := g.Stream(ctx, &text, "", "cat-file", "blob", id+":"+file); err != nil && git.ExitCode(err) <= 0 {
			return nil, err
		}
		rules, err := Parse(named, text.String()) // without the file, none
		if err != nil {
			continue
		}
		here, paths := map[journal.Redirect]bool{}, map[string]bool{}
		for _, r := range rules.Rules {
			path := analytics.FoldPage(r.From)
			if r.literal() && r.leads() && !paths[path] && WellFormed(r.From) && WellFormed(r.target()) { // the first rule counts
				paths[path], here[journal.Redirect{Path: path, Target: analytics.FoldPage(r.target())}] = true, true
			}
		}
		for r := range here {
			if _, known := since[r]; known || i == 0 {
				since[r] = time.Unix(unix, 0).UTC()
			}
		}
		for r, at := range since {
			if !here[r] {
				delete(since, r)
				r.Since = at
				out = append(out, r)
			}
		}
	}
	if shallow == "false" && len(versions) < maxVersions {
		for r, at := range since {
			r.Since = at
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b journal.Redirect) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Target, b.Target))
	})
	return out, nil
}
