package pulls

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/journal"
)

// maxRoots is in how many folders the navigation of the documentation is looked for.
const maxRoots = 4

// findPages notes, once p is merged, which pages the files are that it changed: by docs.json or mint.json at the
// merge. An error is an error of the host: the next read tries again, and until then the paths of the files name the
// pages.
func (f *Follower) findPages(ctx context.Context, p *journal.PullRequest) error {
	if p.State != journal.PullMerged || p.Mapped || len(p.Changed) == 0 {
		return nil
	}
	var root string
	var navigation []byte
	p.Pages, _ = pagesOf(p.Changed, "", nil) // only a navigation can fail
search:
	for _, folder := range roots(p.Changed) {
		for _, name := range []string{"docs.json", "mint.json"} {
			text, err := f.host.File(ctx, *p, path.Join(folder, name))
			if err == nil {
				root, navigation = folder, text
				break search
			}
			if codehost.KindOf(err) != codehost.Hidden {
				return err
			}
		}
	}
	// A file without a navigation names no pages; the paths are still good.
	p.Pages, _ = pagesOf(p.Changed, root, navigation)
	p.Mapped = true
	return nil
}

// roots are the folders that may be the folder of the documentation: the folders with most of the changed files, the
// outer one first.
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

// extensions are the extensions of files that become pages.
var extensions = []string{".mdx", ".md", ".markdown", ".mdoc", ".ipynb", ".rst", ".adoc", ".html", ".htm"}

// aboutRepository are files in its root that do not become pages, without extensions.
var aboutRepository = []string{"README", "CHANGELOG", "CONTRIBUTING", "LICENSE", "CODE_OF_CONDUCT", "SECURITY"}

// pagesOf returns the paths of the pages that the changed files of a documentation repository
// become, sorted, each once. Root is the folder of the documentation, the one that has docs.json
// or mint.json, and navigation the content of that file, or nil: a file that it lists is a page,
// whatever its name. Other files, such as images and snippets, are left out, and those outside of
// root. An error concerns navigation, which is then not used.
func pagesOf(changed []string, root string, navigation []byte) ([]string, error) {
	listed, err := listedIn(navigation)
	root = strings.Trim(path.Clean("/"+root), "/")
	pages := []string{}
	for _, file := range changed {
		extension := path.Ext(file)
		page := strings.TrimSuffix(strings.Trim(file, "/"), extension)
		within := true
		if root != "" {
			page, within = strings.CutPrefix(page, root+"/")
		}
		if !within || !slices.Contains(extensions, strings.ToLower(extension)) {
			continue
		}
		// What begins so is included by pages, or is about the repository.
		part := slices.ContainsFunc(strings.Split(page, "/"), func(folder string) bool {
			return folder == "snippets" || folder == "node_modules" || strings.HasPrefix(folder, "_") ||
				strings.HasPrefix(folder, ".")
		})
		if !listed[page] && (part || root == "" && slices.Contains(aboutRepository, page)) {
			continue
		}
		if folder, name := path.Split(page); name == "README" {
			page = folder + "index"
		}
		// Whatever it is written in, its page has the path that a Markdown file would have.
		pages = append(pages, analytics.FoldPage(path.Clean("/"+page+".md")))
	}
	slices.Sort(pages)
	return slices.Compact(pages), err
}

// listedIn returns the pages that docs.json or mint.json lists, in any nesting of
// tabs, groups, versions and languages: the strings of every list named pages or root.
func listedIn(navigation []byte) (map[string]bool, error) {
	if len(navigation) == 0 {
		return nil, nil
	}
	var config struct {
		Navigation any `json:"navigation"`
	}
	if err := json.Unmarshal(navigation, &config); err != nil {
		return nil, fmt.Errorf("navigation of the documentation: %w", err)
	}
	pages := map[string]bool{}
	var collect func(value any, inPages bool)
	collect = func(value any, inPages bool) {
		switch value := value.(type) {
		case string:
			// "GET /users" is an operation of an API description, not a file.
			if inPages && !strings.Contains(value, " ") {
				pages[strings.Trim(value, "/")] = true
			}
		case []any:
			for _, v := range value {
				collect(v, inPages)
			}
		case map[string]any:
			for name, v := range value {
				collect(v, name == "pages" || name == "root")
			}
		}
	}
	collect(config.Navigation, false)
	return pages, nil
}
