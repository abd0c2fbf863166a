package fake

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

// Changes is a diff by files.
type Changes struct {
	Files          []File
	Added, Removed int
}

// File is the part of a diff about one file.
type File struct {
	Name string
	// Status is GitHub's word: added, removed, renamed, copied, changed (its mode), or
	// modified. Former is the name before it was renamed or copied.
	Status, Former string
	Binary         bool
	Added, Removed int
	// Lines are the lines of the hunks, each with its class: add, del, hunk or plain.
	Lines []struct{ Class, Text string }
}

var (
	hunkHead = regexp.MustCompile(`^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@`)
	// statuses are the lines of the head of a file, as git writes it, that decide its status.
	statuses = []struct{ prefix, status string }{
		{"new file mode ", "added"}, {"deleted file mode ", "removed"}, {"new mode ", "changed"},
		{"rename from ", "renamed"}, {"copy from ", "copied"},
	}
)

// Changes reads pr.Diff, a unified diff of git. Only the sizes in a hunk's head tell its
// content from the next head: a removed line may begin with "-- ". Lines outside of all files,
// such as the note that a diff was cut, are in the last one.
func (pr Pull) Changes() (c Changes) {
	var before, after int // lines left of the hunk
	for text := range strings.SplitSeq(strings.TrimSuffix(pr.Diff, "\n"), "\n") {
		inHunk := before > 0 || after > 0
		if head, ok := strings.CutPrefix(text, "diff --git "); ok && !inHunk {
			name := head
			// A file that was renamed has its name in further lines.
			if half := len(head) / 2; len(head)%2 == 1 && head[half] == ' ' &&
				fileName(head[:half]) == fileName(head[half+1:]) {
				name = fileName(head[:half])
			}
			c.Files = append(c.Files, File{Name: name, Status: "modified"})
			continue
		}
		if len(c.Files) == 0 {
			if text == "" {
				continue
			}
			c.Files = append(c.Files, File{Name: "changes", Status: "modified"})
		}
		f := &c.Files[len(c.Files)-1]
		class := "plain"
		switch {
		case strings.HasPrefix(text, `\`):
		case inHunk && strings.HasPrefix(text, "+"):
			after--
			f.Added++
			c.Added++
			class = "add"
		case inHunk && strings.HasPrefix(text, "-"):
			before--
			f.Removed++
			c.Removed++
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
			f.readHead(text)
			continue
		}
		f.Lines = append(f.Lines, struct{ Class, Text string }{class, text})
	}
	return c
}

// readHead reads a line between the beginning of a file and its first hunk.
func (f *File) readHead(text string) {
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

// fileName removes what git puts around a name.
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
