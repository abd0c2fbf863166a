package agents

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/format"
)

const (
	// maxRangesAge is the age from which published ranges prove nothing.
	maxRangesAge = 30 * 24 * time.Hour
	// maxFile is the size of the largest file of ranges or agents, maxFiles their number.
	maxFile  = 4 << 20
	maxFiles = 256
)

// Ranges are the published addresses of a directory, by file. A nil Ranges has none.
type Ranges struct {
	lists []RangeList // without Stale
	now   func() time.Time
}

// RangeList is one file of published addresses.
type RangeList struct {
	Name string `json:"name"`
	// Created is when the operator made the list, or when the file was written if it does not say.
	Created time.Time `json:"created"`
	// Stale: the list is too old to prove anything.
	Stale bool `json:"stale"`
	// Prefixes counts the networks.
	Prefixes int `json:"prefixes"`

	sorted []netip.Prefix // by address; none is inside another
}

// ReadRanges reads the files of a directory: JSON as operators publish it ({"creationTime": …,
// "prefixes": [{"ipv4Prefix": …}]}), or a network a line. Names that begin with a dot are skipped.
// An empty dir is no directory. Lists grow old by now while they are in use. The error names every bad file.
func ReadRanges(dir string, now func() time.Time) (*Ranges, error) {
	if dir == "" {
		return &Ranges{}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), ".") })
	if len(entries) > maxFiles {
		return nil, fmt.Errorf("%s: has %d files, want at most %d lists of ranges", dir, len(entries), maxFiles)
	}
	r := &Ranges{now: now}
	var problems []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		file, err := readFile(path)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		l := RangeList{Name: e.Name(), Created: file.written}
		if err := l.parse(file.text); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", path, err))
			continue
		}
		r.lists = append(r.lists, l)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return r, nil
}

// Lists returns the files, by name.
func (r *Ranges) Lists() []RangeList {
	if r == nil {
		return nil
	}
	all := slices.Clone(r.lists)
	for i := range all {
		all[i].Stale = r.isStale(all[i])
	}
	return all
}

// Networks returns the networks of a file, however old it is; nil if there is no such file.
func (r *Ranges) Networks(name string) []netip.Prefix {
	for _, l := range r.Lists() {
		if l.Name == name {
			return l.sorted
		}
	}
	return nil
}

// isStale reports whether a list is too old by now. A time in the future says nothing of the age.
func (r *Ranges) isStale(l RangeList) bool { return r.now().Sub(l.Created).Abs() > maxRangesAge }

// Stale returns the files that are too old to prove anything.
func (r *Ranges) Stale() []RangeList {
	return slices.DeleteFunc(r.Lists(), func(l RangeList) bool { return !l.Stale })
}

// IsSpoofed reports whether a client at addr only claims to be the agent: its operator, who hosts all
// clients, publishes other addresses. Agents that are not hosted, such as Claude Code, fetch from their
// users' machines.
func (r *Ranges) IsSpoofed(a *Agent, addr netip.Addr) bool {
	if r == nil || a == nil || !a.Hosted || a.Ranges == "" || !addr.IsValid() {
		return false
	}
	i, ok := slices.BinarySearchFunc(r.lists, a.Ranges, func(l RangeList, name string) int {
		return strings.Compare(l.Name, name)
	})
	return ok && !r.isStale(r.lists[i]) && !r.lists[i].contains(addr.Unmap().WithZone(""))
}

func (l *RangeList) contains(addr netip.Addr) bool {
	// The network that holds addr, if there is one, is the last that does not begin after it.
	i, found := slices.BinarySearchFunc(l.sorted, addr, func(p netip.Prefix, a netip.Addr) int {
		return p.Addr().Compare(a)
	})
	return found || i > 0 && l.sorted[i-1].Contains(addr)
}

// parse reads the content of a file.
func (l *RangeList) parse(text []byte) error {
	var networks []string
	var err error
	if text = bytes.TrimSpace(text); bytes.HasPrefix(text, []byte("{")) {
		networks, err = l.parseJSON(text)
	} else {
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(line, "#")
			networks = append(networks, strings.TrimSpace(line))
		}
	}
	if err != nil {
		return err
	}
	for i, n := range networks {
		if n == "" {
			continue
		}
		p, err := parseNetwork(n)
		if err != nil {
			return fmt.Errorf("network %d, %q: want one such as 192.0.2.0/24 or 2001:db8::/32", i+1, format.Cut(n, 80))
		}
		l.sorted = append(l.sorted, p)
	}
	l.Prefixes = len(l.sorted)
	if l.Prefixes == 0 {
		return errors.New("has no networks: want JSON with prefixes as operators publish it, or a network a line")
	}
	slices.SortFunc(l.sorted, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), a.Bits()-b.Bits())
	})
	outer := l.sorted[:0]
	for _, p := range l.sorted {
		if len(outer) == 0 || !outer[len(outer)-1].Overlaps(p) {
			outer = append(outer, p)
		}
	}
	l.sorted = outer
	return nil
}

// parseNetwork reads a network, or one address.
func parseNetwork(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err == nil && (p.Addr().Is4In6() || p.Bits() == 0) {
		err = errors.New("is no network of an operator")
	}
	return p.Masked(), err
}

func (l *RangeList) parseJSON(text []byte) (networks []string, err error) {
	var doc struct {
		CreationTime string `json:"creationTime"`
		Prefixes     []struct {
			IPv4 string `json:"ipv4Prefix"`
			IPv6 string `json:"ipv6Prefix"`
		} `json:"prefixes"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("is not JSON as operators publish it ({\"prefixes\": [{\"ipv4Prefix\": …}]}): %w", err)
	}
	for i, p := range doc.Prefixes {
		if p.IPv4 == "" && p.IPv6 == "" {
			return nil, fmt.Errorf("network %d has neither ipv4Prefix nor ipv6Prefix", i+1)
		}
		networks = append(networks, p.IPv4, p.IPv6)
	}
	if doc.CreationTime == "" {
		return networks, nil
	}
	// Operators leave out the zone; they mean UTC.
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02"} {
		if l.Created, err = time.Parse(layout, doc.CreationTime); err == nil {
			return networks, nil
		}
	}
	return nil, fmt.Errorf("creationTime %q: want a time such as 2026-11-20T15:04:05", format.Cut(doc.CreationTime, 80))
}

// file is the content of a file, and when it was written.
type file struct {
	text    []byte
	written time.Time
}

// readFile reads a regular file of at most maxFile bytes, or a link to one, as Kubernetes mounts
// them. Opening a FIFO does not wait.
func readFile(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return file{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return file{}, err
	}
	if !info.Mode().IsRegular() {
		return file{}, fmt.Errorf("%s: is a %s, want a regular file", path, durable.Kind(info.Mode()))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: is larger than %d MiB", path, maxFile>>20)
	}
	return file{text, info.ModTime()}, err
}
