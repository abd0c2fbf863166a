package pulls

import (
	"cmp"
	"context"
	"maps"
	"path"
	"slices"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/pulls/codehost"
)

// maxRoots is in how many folders the navigation of the documentation is looked for.
const maxRoots = 4

// findPages notes, once p is merged, which pages the files are that it changed: by docs.json
// or mint.json as it is at the merge. An error is one of the host: the next read tries again,
// and until then nothing is noted.
func (f *Follower) findPages(ctx context.Context, p *journal.PullRequest) error {
	if p.State != journal.PullMerged || p.Mapped || len(p.Changed) == 0 {
		return nil
	}
	var m Mapping
	for _, root := range roots(p.Changed) {
		for _, name := range []string{"docs.json", "mint.json"} {
			text, err := f.host.File(ctx, *p, path.Join(root, name))
			switch kind := codehost.KindOf(err); {
			case err == nil:
				m = Mapping{Root: root, Navigation: text}
			case kind.OfHost():
				return err
			}
			if m.Navigation != nil {
				break
			}
		}
		if m.Navigation != nil {
			break
		}
	}
	// A file that is no navigation names no pages; the paths are still good.
	p.Pages, _ = m.Paths(p.Changed)
	p.Mapped = true
	return nil
}

// roots are the folders that may be that of the documentation: those with most of the
// changed files, the outer one first.
func roots(changed []string) []string {
	count := map[string]int{}
	for _, file := range changed {
		for folder := path.Dir(file); ; folder = path.Dir(folder) {
			count[folder]++
			if folder == "." || folder == "/" {
				break
			}
		}
	}
	all := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	all = all[:min(len(all), maxRoots)]
	for i := range all {
		if all[i] == "." {
			all[i] = ""
		}
	}
	return all
}
