package pulls

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Mapping tells which pages the files of a documentation repository become.
type Mapping struct {
	// Root is the folder of the documentation: the one that has docs.json or mint.json.
	Root string
	// Navigation is the content of that file; nil: there is none. A file that it lists is a
	// page, whatever its name.
	Navigation []byte
	// Pages are those that the front matter of the prompt names; they replace the mapping.
	Pages []string
}

// extensions are those of files that become pages.
var extensions = []string{".mdx", ".md", ".markdown", ".mdoc", ".ipynb", ".rst", ".adoc", ".html", ".htm"}

// Paths returns the paths of the pages that the changed files are, sorted, each once. Files
// that are no page, such as images and snippets, are left out, and those outside of Root. An
// error concerns Navigation, which is then not used.
func (m Mapping) Paths(changed []string) ([]string, error) {
	if len(m.Pages) > 0 {
		return unique(m.Pages, func(page string) (string, bool) { return "/" + strings.Trim(page, "/"), true }), nil
	}
	listed, err := navigationPages(m.Navigation)
	root := strings.Trim(path.Clean("/"+m.Root), "/")
	return unique(changed, func(file string) (string, bool) {
		page, ok := withoutExtension(file)
		if !ok {
			return "", false
		}
		return pageOf(page, root, listed)
	}), err
}

func unique(names []string, page func(string) (string, bool)) []string {
	pages := []string{}
	for _, name := range names {
		if p, ok := page(name); ok {
			pages = append(pages, p)
		}
	}
	slices.Sort(pages)
	return slices.Compact(pages)
}

func withoutExtension(file string) (string, bool) {
	extension := path.Ext(file)
	if !slices.Contains(extensions, strings.ToLower(extension)) {
		return "", false
	}
	return strings.TrimSuffix(strings.Trim(file, "/"), extension), true
}

func pageOf(file, root string, listed map[string]bool) (string, bool) {
	if root != "" {
		var within bool
		if file, within = strings.CutPrefix(file, root+"/"); !within {
			return "", false
		}
	}
	if listed[file] {
		return published(file), true
	}
	for folder := range strings.SplitSeq(file, "/") {
		// What begins so is included by pages, or is about the repository.
		if folder == "snippets" || folder == "node_modules" || strings.HasPrefix(folder, "_") ||
			strings.HasPrefix(folder, ".") {
			return "", false
		}
	}
	if root == "" && slices.Contains([]string{"README", "CHANGELOG", "CONTRIBUTING", "LICENSE", "CODE_OF_CONDUCT",
		"SECURITY"}, file) {
		return "", false
	}
	return published(file), true
}

// published is the path of a page: that of its folder, if it is its index.
func published(page string) string {
	if base := path.Base(page); base == "index" || base == "README" {
		page = path.Dir(page)
	}
	return path.Clean("/" + page)
}

// navigationPages are the pages that docs.json or mint.json lists, in whatever nesting of
// tabs, groups, versions and languages: the strings of every list named pages or root.
func navigationPages(text []byte) (map[string]bool, error) {
	if len(text) == 0 {
		return nil, nil
	}
	var config struct {
		Navigation any `json:"navigation"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("navigation of the documentation: %w", err)
	}
	pages := map[string]bool{}
	collect(pages, config.Navigation)
	return pages, nil
}

func collect(pages map[string]bool, value any) {
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			collect(pages, v)
		}
	case map[string]any:
		for name, v := range value {
			if name == "pages" || name == "root" {
				addStrings(pages, v)
			}
			collect(pages, v)
		}
	}
}

func addStrings(pages map[string]bool, value any) {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	for _, v := range list {
		// "GET /users" is an operation of an API description, which is no file.
		if page, ok := v.(string); ok && !strings.Contains(page, " ") {
			pages[strings.Trim(page, "/")] = true
		}
	}
}
