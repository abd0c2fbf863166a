package prompts

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/durable"
)

// Write adds p to the folder as a new file and returns the file's path below the
// folder. name is that path; its folder must exist. Without an extension it gets
// .md, and an empty name is made from the id or the title. The id is not written if
// it is empty or equal to the path, since the path is the id then.
//
// The file appears whole or not at all, and never replaces another one. It is not written if it breaks a rule, on
// its own or together with the files that exist. The error is an [Error] then, or if another name would do; any
// other error comes from the file system.
func (f *Folder) Write(name string, p Prompt) (string, error) {
	name, err := fileName(name, p)
	if err != nil {
		return "", err
	}
	if p.ID == name {
		p.ID = ""
	}
	data, err := encode(p)
	if err != nil {
		return "", err
	}
	root, err := f.root()
	if err != nil {
		return "", err
	}
	defer root.Close()
	if _, err := root.Lstat(name); err == nil {
		return "", Error{fmt.Errorf("prompt %s: %w: choose another name", name, fs.ErrExist)}
	}
	files, err := walk(root, f.rules, nil)
	if err != nil {
		return "", f.unusable(err)
	}
	added := &file{path: name}
	added.prompt, added.findings = parseFile(name, data, f.rules)
	var broken []error
	for _, finding := range classify(append(files, added), f.rules).Findings {
		if finding.Path == name {
			broken = append(broken, finding)
		}
	}
	if len(broken) > 0 {
		return "", Error{errors.Join(broken...)}
	}
	err = create(root, name, data)
	if err == nil {
		return name, nil
	}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	} else if le, ok := errors.AsType[*os.LinkError](err); ok {
		err = le.Err
	}
	// A path that leads out of the folder is not an error of the system, but of the name.
	number, ofSystem := errors.AsType[syscall.Errno](err)
	err = fmt.Errorf("prompt %s: %w", name, err)
	if !ofSystem || slices.Contains(nameErrors, number) {
		err = Error{err}
	}
	return "", err
}

// nameErrors are the errors of a file system that another name would avoid.
var nameErrors = []syscall.Errno{
	syscall.EEXIST, syscall.ENOENT, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ELOOP,
}

// lockEvery is how often Lock tries.
const lockEvery = 20 * time.Millisecond

// Lock keeps other callers of Lock waiting, in all processes, until unlock is called: they
// count prompts before they write one. The lock is on the folder itself. Where folders cannot
// be locked (Windows, some network file systems), no caller waits.
func (f *Folder) Lock(ctx context.Context) (unlock func() error, err error) {
	root, err := f.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	folder, err := root.Open(".")
	if err != nil {
		return nil, f.unusable(err)
	}
	for {
		if taken, err := durable.TryLock(folder); taken || err != nil {
			return folder.Close, nil //nolint:nilerr // it cannot be locked
		}
		if err := clock.Sleep(ctx, lockEvery); err != nil {
			return nil, errors.Join(err, folder.Close())
		}
	}
}

// fileName checks the name of a new file, or makes one.
func fileName(name string, p Prompt) (string, error) {
	if name == "" {
		return slug(p), nil
	}
	if path.Ext(name) == "" {
		name += ".md"
	}
	hidden := strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
	problem := checkLine(name)
	switch {
	case problem != "":
	case hidden, !fs.ValidPath(name), strings.Contains(name, `\`):
		problem = "want a path below the folder, with slashes, of names that do not begin with a dot"
	case !isPrompt(name):
		problem = "want a name that ends in .md or .txt"
	default:
		return name, nil
	}
	return "", Error{fmt.Errorf("prompt file %s: %s", quote(name), problem)}
}

// notSlug matches the characters replaced in generated file names.
var notSlug = regexp.MustCompile(`[^a-z0-9]+`)

// slug makes a file name from the id or the title.
func slug(p Prompt) string {
	const most = 80
	for _, s := range []string{p.ID, p.Title} {
		s = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(s), ".md"), ".txt")
		s = strings.Trim(notSlug.ReplaceAllString(s, "-"), "-")
		if len(s) > most {
			s = strings.Trim(s[:most], "-")
		}
		if s != "" {
			return s + ".md"
		}
	}
	return "prompt-" + digest(p)[:8] + ".md"
}

// create writes a new file, durable when it returns: under a temporary name that no
// scan reads, and then linked, which fails if the name is taken.
func create(root *os.Root, name string, data []byte) error {
	dir, base := path.Split(name)
	temporary := dir + "." + base[:min(len(base), 40)] + "." + rand.Text() + ".tmp"
	err := writeNew(root, temporary, data)
	if err == nil {
		if err = root.Link(temporary, name); err != nil && !errors.Is(err, fs.ErrExist) {
			err = renameNew(root, temporary, name)
		}
	}
	gone := root.Remove(temporary)
	if errors.Is(gone, fs.ErrNotExist) {
		gone = nil
	}
	return errors.Join(err, gone, durable.SyncDirIn(root, path.Clean("./"+dir)))
}

// renameNew is for file systems without links: it reserves the name with an empty
// file and renames the temporary file over it.
func renameNew(root *os.Root, temporary, name string) error {
	if err := writeNew(root, name, nil); err != nil {
		return err
	}
	return root.Rename(temporary, name)
}

func writeNew(root *os.Root, name string, data []byte) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

// encode writes p as a file: front matter with the keys that have a value, in their
// usual order, then the body.
func encode(p Prompt) ([]byte, error) {
	front := &yaml.Node{Kind: yaml.MappingNode}
	add := func(key string, value *yaml.Node) {
		front.Content = append(front.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
	}
	text := func(key, value string) {
		if value != "" {
			add(key, textNode(value))
		}
	}
	list := func(key string, values []string) {
		if len(values) == 0 {
			return
		}
		node := &yaml.Node{Kind: yaml.SequenceNode}
		for _, v := range values {
			if key == "depends_on" && slices.Contains(p.Merged, v) {
				node.Content = append(node.Content, &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
					textNode("prompt"), textNode(v), textNode("when"), textNode(whenMerged),
				}})
				continue
			}
			node.Content = append(node.Content, textNode(v))
		}
		add(key, node)
	}
	text("id", p.ID)
	text("project", p.Project)
	text("title", p.Title)
	text("not_before", timeText(p.NotBefore))
	text("expires", timeText(p.Expires))
	text("schedule", p.Schedule.String())
	list("depends_on", p.DependsOn)
	list("follow_ups", p.FollowUps)
	text("concurrency_key", p.ConcurrencyKey)
	if p.Resubmit {
		add("on_unknown", &yaml.Node{Kind: yaml.ScalarNode, Value: "resubmit"})
	}
	if p.Template {
		add("template", &yaml.Node{Kind: yaml.ScalarNode, Value: "true"})
	}
	list("pages", p.Pages)
	body, _ := trimBlank(newlines.Replace(p.Body))
	_, misread := misplaced(strings.SplitAfter(body, "\n"))
	if begins := strings.HasPrefix(strings.TrimLeft(body, " \t"), fence) || strings.HasPrefix(body, bom); !begins &&
		misread == "" && len(front.Content) == 0 {
		return []byte(body + "\n"), nil
	}
	var out bytes.Buffer
	out.WriteString(fence + "\n")
	if len(front.Content) > 0 {
		encoder := yaml.NewEncoder(&out)
		encoder.SetIndent(2)
		if err := errors.Join(encoder.Encode(front), encoder.Close()); err != nil {
			return nil, err
		}
	}
	out.WriteString(fence + "\n" + body + "\n")
	return out.Bytes(), nil
}

// noBlock matches text that a YAML block does not keep: white space before the first
// line or around another, and characters that end a line or a document in YAML.
var noBlock = regexp.MustCompile(`^[ \t]|\n\t|[ \t](?:\n|$)|[^\n\t -~\x{A1}-\x{2027}\x{2030}-\x{D7FF}]`)

// textNode is text that reads back as the same text: a block if it has several lines,
// else in quotes.
func textNode(s string) *yaml.Node {
	style := yaml.DoubleQuotedStyle
	if strings.Contains(s, "\n") && !noBlock.MatchString(s) {
		style = yaml.LiteralStyle
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: style}
}

// timeText writes a time, as a date if it is the beginning of a day.
func timeText(t time.Time) string {
	switch t = t.UTC(); {
	case t.IsZero():
		return ""
	case t.Equal(t.Truncate(24 * time.Hour)):
		return t.Format(time.DateOnly)
	}
	return t.Format(time.RFC3339Nano)
}
