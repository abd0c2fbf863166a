package codehost

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

// File is what a diff changes in one file.
type File struct {
	Name string
	// Status is GitHub's word: added, removed, renamed, copied, changed (its mode),
	// or modified. Former is the name before it was renamed or copied.
	Status, Former string
	Binary         bool
	Added, Removed int
	Lines          []Line
}

// Line is a line of a diff and its class: add, del, hunk or plain.
type Line struct{ Class, Text string }

var (
	hunkHead = regexp.MustCompile(`^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@`)
	// statuses are the lines of git's head of a file that say what became of it.
	statuses = []struct{ prefix, status string }{
		{"new file mode ", "added"}, {"deleted file mode ", "removed"}, {"new mode ", "changed"},
		{"rename from ", "renamed"}, {"copy from ", "copied"},
	}
)

// ParseDiff splits git's unified diff into its files. Only the sizes in a hunk's head
// say what is content: a removed line may begin with "-- ". What is in no file, such
// as the note that a diff was cut, stands in the last one.
func ParseDiff(diff string) (files []File) {
	var before, after int // lines left of the hunk
	for text := range strings.SplitSeq(strings.TrimSuffix(diff, "\n"), "\n") {
		inHunk := before > 0 || after > 0
		if head, ok := strings.CutPrefix(text, "diff --git "); ok && !inHunk {
			files = append(files, File{Name: sameName(head), Status: "modified"})
			continue
		}
		if len(files) == 0 {
			if text == "" {
				continue
			}
			files = append(files, File{Name: "changes", Status: "modified"})
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
		f.Lines = append(f.Lines, Line{class, text})
	}
	return files
}

// head reads a line between the head of a file and its first hunk.
func (f *File) head(text string) {
	for _, side := range []string{"--- ", "+++ ", "rename to ", "copy to "} {
		if name, ok := strings.CutPrefix(text, side); ok && name != "/dev/null" {
			f.Name = fileName(name)
		}
	}
	for _, s := range statuses {
		if rest, ok := strings.CutPrefix(text, s.prefix); ok {
			if f.Status = s.status; s.status == "renamed" || s.status == "copied" {
				f.Former = fileName(rest)
			}
		}
	}
	f.Binary = f.Binary || strings.HasPrefix(text, "Binary files ")
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
