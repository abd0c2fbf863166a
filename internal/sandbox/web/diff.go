package web

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"github.com/docgauge/docgauge/internal/format"
)

// file is what a diff changes in one file.
type file struct {
	Name           string
	Note           string // such as: new, deleted, renamed from a.md; empty: changed
	Added, Removed int
	Lines          []line
}

// line is a line of a diff and its class: add, del, hunk or plain.
type line struct{ Class, Text string }

// summary adds up the changed lines of files.
type summary struct {
	Files          string // 1 file
	Added, Removed int
}

func summarize(files []file) summary {
	s := summary{Files: format.Plural(len(files), "file")}
	for _, f := range files {
		s.Added += f.Added
		s.Removed += f.Removed
	}
	return s
}

var (
	hunkHead = regexp.MustCompile(`^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@`)
	// fileNotes are the lines of git's head of a file that say what became of it.
	fileNotes = []struct{ prefix, note string }{
		{"new file mode ", "new"}, {"deleted file mode ", "deleted"}, {"new mode ", "mode changed"},
		{"rename from ", "renamed from %"}, {"copy from ", "copied from %"}, {"Binary files ", "binary"},
	}
)

// parseDiff splits git's unified diff into its files. Only the sizes in a hunk's head
// say what is content: a removed line may begin with "-- ". What is in no file, such
// as the note that a diff was cut, stands in the last one.
func parseDiff(diff string) (files []file) {
	var before, after int // lines left of the hunk
	for text := range strings.SplitSeq(strings.TrimSuffix(diff, "\n"), "\n") {
		inHunk := before > 0 || after > 0
		if head, ok := strings.CutPrefix(text, "diff --git "); ok && !inHunk {
			files = append(files, file{Name: sameName(head)})
			continue
		}
		if len(files) == 0 {
			if text == "" {
				continue
			}
			files = append(files, file{Name: "changes"})
		}
		f := &files[len(files)-1]
		class := "plain"
		switch {
		case strings.HasPrefix(text, `\`):
		case inHunk && strings.HasPrefix(text, "+"):
			after--
			f.Added++
			class = "add"
		case inHunk && strings.HasPrefix(text, "-"):
			before--
			f.Removed++
			class = "del"
		case inHunk:
			before--
			after--
		case strings.HasPrefix(text, "@@ "):
			class = "hunk"
			if m := hunkHead.FindStringSubmatch(text); m != nil {
				// Git leaves out a size of 1.
				before, _ = strconv.Atoi(cmp.Or(m[1], "1"))
				after, _ = strconv.Atoi(cmp.Or(m[2], "1"))
			}
		default:
			f.head(text)
			continue
		}
		f.Lines = append(f.Lines, line{class, text})
	}
	return files
}

// head reads a line between the head of a file and its first hunk.
func (f *file) head(text string) {
	for _, side := range []string{"--- ", "+++ ", "rename to ", "copy to "} {
		if name, ok := strings.CutPrefix(text, side); ok && name != "/dev/null" {
			f.Name = fileName(name)
		}
	}
	for _, n := range fileNotes {
		if rest, ok := strings.CutPrefix(text, n.prefix); ok {
			f.Note = strings.Replace(n.note, "%", fileName(rest), 1)
		}
	}
}

// fileName takes off what git puts around a name.
func fileName(name string) string {
	name = strings.TrimSuffix(name, "\t") // after a name with a space
	if plain, err := strconv.Unquote(name); err == nil {
		name = plain
	}
	if side, rest, ok := strings.Cut(name, "/"); ok && (side == "a" || side == "b") {
		return rest
	}
	return name
}

// sameName returns the name in "a/name b/name"; a file that was renamed has its name
// in further lines.
func sameName(head string) string {
	if half := len(head) / 2; len(head)%2 == 1 && head[half] == ' ' && fileName(head[:half]) == fileName(head[half+1:]) {
		return fileName(head[:half])
	}
	return head
}
