package sandbox

import (
	"crypto/sha256"
	"encoding/binary"
	slashpath "path"
	"regexp"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/sandbox/traffic"
)

// The synthetic site as a repository: a file for each page, and the navigation.
const (
	pageEnd        = ".mdx"
	navigationFile = "docs.json"
	// editedPages is the number of best known pages, for jobs that name no page.
	editedPages = 40
)

var (
	// wantedPage is the word that names the page that a job changes.
	wantedPage = regexp.MustCompile(`\[sandbox:page=(/[^\]\s"\\\x00-\x1f]*)\]`)
	// plainPage is a path that is a file name too.
	plainPage     = regexp.MustCompile(`^/[a-z0-9/-]+$`)
	documentation = []string{"docs", "doc", "documentation", "content", "site"}
)

// fileOf returns the file of a page.
func fileOf(page string) string {
	if name := strings.Trim(slashpath.Clean(page), "/"); name != "" {
		return name + pageEnd
	}
	return "index" + pageEnd
}

// pageOfFile returns the page of a file, which may be below a directory for documentation.
func pageOfFile(file string, known map[string]uint32) (page uint32, ok bool) {
	name := strings.TrimSuffix(file, slashpath.Ext(file))
	base := slashpath.Base(name)
	index := base == "index" || strings.EqualFold(base, "readme")
	if index {
		name = strings.TrimPrefix(slashpath.Dir(name), ".")
	}
	if page, ok = known["/"+name]; ok {
		return page, file != ""
	}
	if root, rest, below := strings.Cut(name, "/"); (below || index) && slices.Contains(documentation, root) {
		page, ok = known["/"+rest]
	}
	return page, ok
}

// pageNumbers returns the pages of the synthetic site by path.
func pageNumbers(pages []string) map[string]uint32 {
	numbers := make(map[string]uint32, len(pages))
	for i, page := range pages {
		numbers[page] = uint32(i)
	}
	return numbers
}

// changedFile returns the file that a pretended job changes: the file of the page that its prompt names, or of one
// of the best known pages, the same for the same prompt. Those pages have steady readers in every scenario, so that
// the effect of a merge is visible.
func changedFile(seed uint64, pages []string) func(prompt string) string {
	var known []string
	for i, page := range pages[:min(len(pages), editedPages)] {
		if plainPage.MatchString(page) && traffic.HasSteadyReaders(i) {
			known = append(known, page)
		}
	}
	return func(prompt string) string {
		if wanted := wantedPage.FindStringSubmatch(prompt); wanted != nil {
			return fileOf(wanted[1])
		}
		if len(known) == 0 {
			return fileOf("/")
		}
		sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, seed), prompt...))
		return fileOf(known[binary.BigEndian.Uint64(sum[:])%uint64(len(known))])
	}
}

// navigation is the site's docs.json, as Mintlify has it.
func navigation(pages []string) any {
	type group struct {
		Group string   `json:"group"`
		Pages []string `json:"pages"`
	}
	var names []string
	for _, page := range pages {
		if plainPage.MatchString(page) {
			names = append(names, strings.TrimPrefix(page, "/"))
		}
	}
	return map[string]any{
		"$schema": "https://mintlify.com/docs.json", "name": "docgauge sandbox",
		"navigation": map[string]any{"groups": []group{{"Documentation", names}}},
	}
}

// pretendedHead is the first line of a file that [pretend] changes.
func pretendedHead(file string) string {
	return "# " + strings.TrimSuffix(slashpath.Base(file), slashpath.Ext(file))
}
