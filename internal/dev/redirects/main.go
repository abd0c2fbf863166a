// Command redirects measures the proposals of docgauge redirects with the history of a repository of documentation: the
// old paths of pages, which git log --follow finds page by page, the redirects that its people wrote, and paths that
// nobody ever had. It prints how many proposals are right, and those that are not.
//
//	go run ./internal/dev/redirects -docs docs [-rules mintlify:docs/docs.json] CLONE
package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/must"
	"github.com/docgauge/docgauge/internal/git"
	"github.com/docgauge/docgauge/internal/redirects"
	"github.com/docgauge/docgauge/internal/view"
)

type measurement struct {
	client git.Client
	docs   string
	show   bool
	site   redirects.Site
	pages  map[string]string // of files
	words  []string
}

// renamed is the title of the old paths of renames.
const renamed = "old paths of renames"

func main() {
	var m measurement
	flag.StringVar(&m.docs, "docs", "", "`folder` of the documentation, whose files are the site")
	rules := flag.String("rules", "", "`FORMAT:FILE` with redirects that people wrote")
	n := flag.Int("n", 100, "old paths to measure")
	flag.BoolVar(&m.show, "show", false, "print each wrong proposal")
	flag.Parse()
	m.client = git.Client{Program: "git", Dir: flag.Arg(0),
		Env: slices.Concat(git.Environment(git.Ordinary), git.Variables)}
	history, _, err := redirects.ReadRepository(context.Background(), m.client, "HEAD")
	must.Do(err)
	m.site.History, m.pages = history, map[string]string{}
	for _, file := range history.Files {
		if page := m.page(file); page != "" {
			m.pages[file] = page
			m.site.Pages = append(m.site.Pages, page)
			m.words = append(m.words, strings.FieldsFunc(page, func(r rune) bool { return strings.ContainsRune("/-_.", r) })...)
		}
	}
	slices.Sort(m.site.Pages)
	fmt.Printf("%s: %d pages, %d files that ended\n", flag.Arg(0), len(m.site.Pages), len(history.Former))
	truth := m.renames(*n)
	m.measure(renamed, truth, m.site)
	m.measure("the same without history", truth, redirects.Site{Pages: m.site.Pages})
	if format, file, ok := strings.Cut(*rules, ":"); ok {
		written, err := redirects.Parse(redirects.Format(format), must.Get(m.git("show", "HEAD:"+file)))
		must.Do(err)
		m.measure("redirects of people", m.written(written), m.site)
	}
	m.measure("invented paths", m.invented(300), m.site)
}

func (m *measurement) git(args ...string) (string, error) {
	return m.client.Run(context.Background(), args...)
}

// page returns the path of the page of a file of the documentation.
func (m *measurement) page(file string) string {
	rest, ok := strings.CutPrefix(file, strings.TrimPrefix(m.docs+"/", "/"))
	if !ok {
		return ""
	}
	return redirects.FilePath(rest)
}

// renames returns the former paths of pages and where each page is now.
func (m *measurement) renames(n int) map[string][]string {
	files := slices.Sorted(maps.Keys(m.pages))
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	truth := map[string][]string{}
	for _, file := range files {
		if len(truth) >= n {
			break
		}
		for _, old := range m.formerPaths(file) {
			if !slices.Contains(m.site.Pages, old) && !slices.Contains(truth[old], m.pages[file]) {
				truth[old] = append(truth[old], m.pages[file])
			}
		}
	}
	return truth
}

// formerPaths returns the paths that the page of a file had, as git log --follow finds them. There are none where the
// clone lacks objects.
func (m *measurement) formerPaths(file string) (out []string) {
	log, err := m.git("log", "--follow", "-M50%", "--name-status", "--diff-filter=R", "--format=", "HEAD", "--", file)
	if err != nil {
		return nil
	}
	for line := range strings.SplitSeq(log, "\n") {
		if names := strings.Split(line, "\t"); len(names) == 3 {
			out = append(out, m.page(names[1]))
		}
	}
	return slices.DeleteFunc(out, func(old string) bool { return old == "" })
}

// isRight reports whether a target is the page that had a path. Not every page was followed for the truth of renames.
func (m *measurement) isRight(p redirects.Proposal, truth []string, renames bool) bool {
	if slices.Contains(truth, p.Target) {
		return true
	}
	for file, page := range m.pages {
		if renames && page == p.Target && slices.Contains(m.formerPaths(file), p.Path) {
			return true
		}
	}
	return false
}

// written returns the redirects of people from paths that are no pages to pages.
func (m *measurement) written(f *redirects.File) map[string][]string {
	truth := map[string][]string{}
	for _, r := range f.Rules {
		target, _, _ := strings.Cut(r.To, "#")
		from, to := analytics.FoldPage(r.From), analytics.FoldPage(target)
		if !slices.Contains(truth[from], to) && redirects.WellFormed(from) &&
			slices.Contains(m.site.Pages, to) && !slices.Contains(m.site.Pages, from) {
			truth[from] = append(truth[from], to)
		}
	}
	return truth
}

func (m *measurement) invented(n int) map[string][]string {
	random := rand.New(rand.NewPCG(3, 4))
	truth, were := map[string][]string{}, map[string]bool{}
	for file := range m.site.History.Former {
		were[m.page(file)] = true
	}
	for len(truth) < n {
		p := ""
		for range 1 + random.IntN(3) {
			p += "/" + m.words[random.IntN(len(m.words))]
			if random.IntN(2) == 0 {
				p += "-" + m.words[random.IntN(len(m.words))]
			}
		}
		if !slices.Contains(m.site.Pages, p) && !were[p] {
			truth[p] = nil
		}
	}
	return truth
}

func (m *measurement) measure(what string, truth map[string][]string, site redirects.Site) {
	var misses []view.MissedPath
	for _, old := range slices.Sorted(maps.Keys(truth)) {
		misses = append(misses, view.MissedPath{Path: old})
	}
	count, right := map[redirects.Grade]int{}, map[redirects.Grade]int{}
	for _, p := range redirects.Propose(misses, site) {
		count[p.Grade]++
		if m.isRight(p, truth[p.Path], what == renamed) {
			right[p.Grade]++
		} else if m.show && (p.Grade != redirects.None || len(truth[p.Path]) > 0) {
			fmt.Printf("    %-6s %s -> %s (%s), not %v\n", p.Grade, p.Path, p.Target, p.Reason, truth[p.Path])
		}
	}
	sure, likely := redirects.Sure, redirects.Likely
	fmt.Printf("  %-25s %4d  sure %d of %d right, sure and likely %d of %d, found %d\n", what, len(misses), right[sure],
		count[sure], right[sure]+right[likely], count[sure]+count[likely], right[sure]+right[likely])
}
