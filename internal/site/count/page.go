package count

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/docgauge/docgauge/internal/analytics"
)

// otherPages stands for all paths that are too long, or beyond the greatest number of pages.
const otherPages = "(other)"

// Longest paths in bytes: of a page, and of a missed path.
const (
	maxPath   = 2048
	maxMissed = 200
)

// builtinAssets are not pages: extensions with their dot, folders with their slash, else names of files. Sphinx has
// sources, an inventory and a build file; Pagefind an index; React Router data. The last names send images and scripts
// without an extension. Other search indexes are JSON or scripts.
const builtinAssets = ".css,.js,.mjs,.cjs,.map,.json,.xml,.rss,.atom,.wasm,.webmanifest,.ico,.png,.jpg,.jpeg,.gif," +
	".svg,.webp,.avif,.bmp,.tif,.tiff,.woff,.woff2,.ttf,.otf,.eot,.mp3,.mp4,.m4a,.ogg,.wav,.webm,.mov,.pdf,.zip,.gz," +
	".tgz,.bz2,.xz,.zst,.tar,.7z,.rar,.dmg,.exe,.msi,.deb,.rpm,.apk,.jar,.whl,.iso,.bin,.sha256,.sig,.asc,robots.txt," +
	"ads.txt,security.txt,humans.txt,_sources/,objects.inv,.buildinfo,.pagefind,.pf_meta,.pf_index,.pf_fragment," +
	".pf_filter,.pf_sort,.data,_next/,_image,_ipx/,cdn-cgi/"

// assetKind is what a path names by the name of its file.
type assetKind uint8

const (
	isPage  assetKind = iota
	isAsset           // no page
	isProof           // no page, and browsers fetch it by themselves to show one
)

// proofs are the ends of files that browsers fetch by themselves to show a page.
var proofs = strings.Split(".css,.js,.mjs,.cjs,.ico,.png,.jpg,.jpeg,.gif,.svg,.webp,.avif,.bmp,.woff,.woff2,.ttf,.otf,"+
	".eot", ",")

// assets says which paths are not pages.
type assets struct {
	names   map[string]assetKind
	begin   [256]bool // the first bytes of names that are no extensions
	folders []string  // between slashes
}

func parseAssets(text string) assets {
	a := assets{names: map[string]assetKind{}}
	for name := range strings.SplitSeq(cmp.Or(text, builtinAssets), ",") {
		if name = strings.ToLower(strings.TrimSpace(name)); strings.HasSuffix(name, "/") {
			a.folders = append(a.folders, "/"+strings.TrimLeft(name, "/"))
		} else {
			a.add(name)
		}
	}
	for _, end := range proofs {
		if a.names[end] == isAsset {
			a.names[end] = isProof
		}
	}
	return a
}

func (a *assets) add(name string) {
	a.names[name] = isAsset
	if name != "" {
		a.begin[name[0]] = true
	}
}

// haveFolder reports whether a path without its query leads into a folder of assets.
func (a *assets) haveFolder(path string) bool {
	path = strings.ToLower(path)
	return slices.ContainsFunc(a.folders, func(folder string) bool { return strings.Contains(path, folder) })
}

// kindOf returns what a path without its query names by the name of its file.
func (a *assets) kindOf(path []byte) assetKind {
	name := path[bytes.LastIndexByte(path, '/')+1:]
	if len(name) == 0 || len(name) > 255 {
		return isPage
	}
	var buf [256]byte
	lower := buf[:copy(buf[:], name)]
	dot := -1
	for i, c := range lower {
		if c >= 'A' && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		} else if c == '.' {
			dot = i
		}
	}
	if dot >= 0 {
		if kind := a.names[string(lower[dot:])]; kind != isPage {
			return kind
		}
	}
	if !a.begin[lower[0]] {
		return isPage
	}
	return a.names[string(lower)]
}

// markdownFiles are Markdown surfaces, beside every path that ends in .md or .mdx.
var markdownFiles = []string{"llms.txt", "llms-full.txt"}

// docsifyParts are parts of pages of Docsify, whose script fetches the README of a folder as the folder's page.
var docsifyParts = []string{"_sidebar.md", "_navbar.md", "_coverpage.md", "_footer.md", "_404.md"}

// pageOf returns the page that the target of a request names: its path without query, decoded and
// with one spelling for each, folded. markdown reports whether the path asks for Markdown. It returns
// nothing for a target without a path.
func pageOf(target []byte) (page string, markdown bool) {
	path := pathOf(target)
	if len(path) == 0 {
		return "", false
	}
	name := path[bytes.LastIndexByte(path, '/')+1:]
	markdown = bytes.HasSuffix(name, []byte(".md")) || bytes.HasSuffix(name, []byte(".mdx")) ||
		slices.Contains(markdownFiles, string(name))
	if len(path) > maxPath {
		return otherPages, markdown
	}
	return analytics.FoldPage(spell(path)), markdown
}

// plainPage reports whether a missed path could name a page, and can be shown anywhere: it has letters,
// digits, and - _ . ~ between single slashes, no name that begins with a dot, and no file but a Markdown surface.
func plainPage(page string) bool {
	if len(page) > maxMissed || page == "" || page[0] != '/' {
		return false
	}
	name := ""
	for name = range strings.SplitSeq(page[1:], "/") {
		if name == "" && page != "/" || strings.HasPrefix(name, ".") || strings.ContainsFunc(name, func(r rune) bool {
			return !isLetter(r) && (r < '0' || r > '9') && !strings.ContainsRune("-_.~", r)
		}) {
			return false
		}
	}
	dot := strings.LastIndexByte(name, '.')
	isFile := dot >= 0 && !strings.ContainsFunc(name[dot+1:], func(r rune) bool { return !isLetter(r) })
	return !isFile || slices.Contains(markdownFiles, name)
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// pathOf returns the path of a target without its query, nil where it has none: a target can be a
// whole URL, an asterisk, or the address of a proxy's host.
func pathOf(target []byte) []byte {
	if len(target) > 0 && target[0] != '/' {
		at := bytes.Index(target, []byte("://"))
		if at < 0 {
			return nil
		}
		target = target[at+len("://"):]
		if at = bytes.IndexByte(target, '/'); at < 0 {
			return []byte("/")
		}
		target = target[at:]
	}
	for _, end := range [...]byte{'?', '#'} {
		if at := bytes.IndexByte(target, end); at >= 0 {
			target = target[:at]
		}
	}
	return target
}

// pageOfPayload returns the path of the page whose content the script of a site asks for: Next.js's with the query
// _rsc, in a static export with .txt at the end, or below /_next/data/; Nuxt's as _payload.json. The path is empty if
// only prefetches have such a path, or if no header tells them from a click. Other paths are returned unchanged.
func pageOfPayload(target, path []byte) (page []byte, isPayload bool) {
	if whole, ok := bytes.CutSuffix(path, []byte(".json")); ok {
		if bytes.HasSuffix(whole, []byte("/_payload")) {
			return nil, true
		}
		before, after, ok := bytes.Cut(whole, []byte("/_next/data/"))
		if !ok {
			return path, false
		}
		_, after, ok = bytes.Cut(after, []byte("/")) // after the number of the build
		if !ok {
			return nil, true
		}
		if string(after) == "index" {
			after = nil
		}
		return slices.Concat(before, []byte("/"), after), true
	}
	at := bytes.IndexByte(target, '?')
	if at < 0 {
		return path, false
	}
	query := target[at+1:]
	for part := range bytes.SplitSeq(query, []byte("&")) {
		key, _, _ := bytes.Cut(part, []byte("="))
		isPayload = isPayload || string(key) == "_rsc"
	}
	if !isPayload {
		return path, false
	}
	name := path[bytes.LastIndexByte(path, '/')+1:]
	if whole, ok := bytes.CutSuffix(path, []byte(".txt")); ok {
		if bytes.HasPrefix(name, []byte("__next.")) {
			return nil, true
		}
		if string(name) == "index.txt" {
			whole = bytes.TrimSuffix(whole, []byte("index"))
		}
		return whole, true
	}
	return path, true
}

// spell writes a path in the one spelling that is counted: printable text as it is; percent-encoded the rest, and
// the characters / ? # and % where they were encoded.
func spell(path []byte) string {
	plain := true
	for _, c := range path {
		plain = plain && c > ' ' && c < 0x7f && c != '%' && c != '#' && c != '?'
	}
	if plain {
		return string(path)
	}
	var out strings.Builder
	encode := func(b ...byte) {
		for _, c := range b {
			out.WriteString("%" + strings.ToUpper(strconv.FormatUint(uint64(c)|0x100, 16)[1:]))
		}
	}
	text := make([]byte, 0, len(path))
	kept := make([]bool, 0, len(path)) // an encoded sign that means something else
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' && i+2 < len(path) {
			if n, err := strconv.ParseUint(string(path[i+1:i+3]), 16, 8); err == nil {
				c, i = byte(n), i+2
				text, kept = append(text, c), append(kept, c == '/')
				continue
			}
		}
		text, kept = append(text, c), append(kept, false)
	}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case kept[i] || r == utf8.RuneError && size == 1 || r == '%' || r == '?' || r == '#' ||
			!unicode.IsPrint(r):
			encode(text[i : i+size]...)
		default:
			out.WriteRune(r)
		}
		i += size
	}
	return out.String()
}
