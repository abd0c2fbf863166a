package logs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// An archive may have as much text as this, and more if it is not mostRatio times its size. Lines differ at least
	// by their time: one of 200 bytes would have to take less than two bits. gzip reaches 1,032 with a single letter,
	// zstd 30,000.
	freeText  = 1 << 30
	mostRatio = 1000
)

// errBomb is the error of an archive with more text than that.
var errBomb = fmt.Errorf("has more than %d times its size of text and more than 1 GiB, as no log has: remove it",
	mostRatio)

// files reads what is new in files.
func (p *poll) files() {
	if !p.readRecent() {
		p.readAll()
	}
	p.fileProblems, p.polledAt = maps.Clone(p.problems), p.now()
	if len(p.behind) > 0 {
		p.listedAt = time.Time{}
	}
}

// readRecent reads what is new in the files that changed last. It returns false if the files must be listed: see
// fewFiles.
func (p *poll) readRecent() bool {
	age, least := p.now().Sub(p.listedAt), time.Duration(len(p.known))*listPause
	if len(p.known) <= p.fewFiles || p.listedAt.IsZero() || age < 0 || age >= max(grace, least) ||
		age >= least && (p.isUrgent || p.hasChanged()) {
		return false
	}
	var work []*known
	for _, k := range p.recent {
		c := *k.at
		if c.base == "" {
			continue // it is open, and gone
		}
		if _, err := c.look(); err != nil || c.id != k.inode || c.id == (inode{}) || c.size < k.Offset && !k.IsPacked {
			return false
		}
		if c.size == k.at.size && c.modified.Equal(k.at.modified) {
			continue
		}
		if same, err := k.isAt(&c); !same || err != nil {
			return false
		}
		k.at = &c
		work = append(work, k)
	}
	maps.Copy(p.problems, p.fileProblems)
	p.readEach(work)
	return true
}

// readEach sorts files and reads them: the one whose last line is the oldest comes first.
func (p *poll) readEach(work []*known) {
	slices.SortFunc(work, func(a, b *known) int {
		return cmp.Or(a.at.modified.Compare(b.at.modified), cmp.Compare(len(b.at.path), len(a.at.path)),
			strings.Compare(b.at.path, a.at.path))
	})
	for _, k := range work {
		if p.stopped == nil {
			p.problem(k.at.source, p.read(k))
		}
	}
}

// readAll lists the files, and reads what is new in them.
func (p *poll) readAll() {
	p.listedAt = p.now()
	work := p.find()
	p.readEach(work)
	p.recent = work[max(0, len(work)-p.fewFiles):]
	p.isUrgent = false
	for _, err := range p.problems {
		p.isUrgent = p.isUrgent || !errors.Is(err, errMissing)
	}
	for _, k := range p.known {
		switch {
		case k.file == nil || p.stopped != nil || k.at != nil && k.at.isLive:
		case p.now().Sub(k.active) >= grace:
			_ = k.close() // it was only read
		default:
			p.isUrgent = true
		}
	}
}

// find lists the files, finds out which of them are known, and returns those to read.
func (p *poll) find() (work []*known) {
	var list []*candidate
	files := map[inode]*candidate{}
	add := func(c *candidate) {
		first := files[c.id]
		switch {
		case first == nil:
			list = append(list, c)
			if p.paths[c.path] = true; c.id != (inode{}) {
				files[c.id] = c
			}
		case p.sources[first.source].Project != p.sources[c.source].Project:
			p.problem(c.source, fmt.Errorf("%s: is the same file as %s, whose lines are of another project: name it for "+
				"one of them, or give the projects by DOCGAUGE_SITE_PROJECTS", c.path, first.path))
		}
	}
	all, problems := p.list()
	for i, found := range all {
		if !p.sources[i].IsFile() {
			continue
		}
		p.problem(i, problems[i])
		if problems[i] == nil {
			p.listed[p.sources[i].Where] += len(found)
		}
		// A copy or an archive that is being made is shorter than its file.
		slices.SortFunc(found, func(a, b *candidate) int {
			return cmp.Or(cmp.Compare(a.kind(), b.kind()), cmp.Compare(b.size, a.size))
		})
		for _, c := range found {
			add(c)
		}
	}
	maps.DeleteFunc(p.copies, func(id inode, _ copied) bool { return files[id] == nil })
	byInode := map[inode]*known{}
	for _, k := range p.known {
		if k.at != nil && k.at.isLive {
			k.active = p.polledAt
		}
		k.at = nil
		if k.inode == (inode{}) {
			continue
		}
		if o := byInode[k.inode]; o == nil || o.Born <= k.Born { // the inode of a deleted file may be another's now
			byInode[k.inode] = k
		}
		if files[k.inode] == nil {
			if c := p.elsewhere(k); c != nil {
				add(c)
			}
		}
	}
	var others []*candidate
	for _, c := range list {
		k := byInode[c.id]
		if k == nil {
			others = append(others, c)
			continue
		}
		switch same, err := k.isAt(c); {
		case err != nil && !errors.Is(err, errCut):
			k.at = c // not gone
			p.problem(c.source, err)
		case same:
			if !k.IsPacked && c.size < k.Offset { // cut, and still the same file
				k.Offset, k.EndSize, k.hasLost = c.size, 0, true
				k.setHead(c.head)
			}
			k.move(p.sources[c.source].Where, c)
			work = append(work, k)
		default:
			// Its inode has another text: the file was emptied, or it was deleted and another one got the inode.
			if k.Path == c.real && k.isBorn(c) && !k.IsPacked && k.Offset > 0 {
				k.IsEmptied, k.hasLost = true, true
			}
			k.inode = inode{}
			p.problem(c.source, k.close())
			others = append(others, c)
		}
	}
	similar := index{}
	for _, k := range p.known {
		if len(others) > 0 {
			similar.add(k)
		}
	}
	for _, c := range others {
		k, err := p.recognize(c, similar)
		p.problem(c.source, err)
		if k != nil {
			work = append(work, k)
		}
	}
	for i, s := range p.sources {
		if n, isListed := p.listed[s.Where]; isListed && n == 0 && !slices.ContainsFunc(p.known, func(k *known) bool {
			return k.at != nil && k.at.source == i // it was renamed so that the glob does not match it any more
		}) {
			p.problem(i, errMissing)
		}
	}
	for _, k := range p.known {
		if k.hasLost && p.stopped == nil {
			_ = p.give(k, Chunk{Source: max(p.sourceOf(k), 0), PossiblyLost: true})
		}
		k.hasLost = false
	}
	return work
}

// elsewhere returns the file of k if it is open, or at its former path, although its source does not list it.
func (p *poll) elsewhere(k *known) *candidate {
	source := p.sourceOf(k)
	if source < 0 {
		return nil
	}
	c := &candidate{source: source, base: k.Base, path: k.Path, real: k.Path}
	if k.file != nil {
		if info, err := k.file.Stat(); err == nil && c.set(info) == nil {
			c.base = "" // it is not live
			return c
		}
		return nil
	}
	if _, err := c.look(); err != nil || c.id != k.inode || c.id == (inode{}) {
		return nil
	}
	if c.path == c.base {
		c.base = ""
	}
	return c
}

// isAt reports whether c, which has the inode of k, still has its text.
func (k *known) isAt(c *candidate) (bool, error) {
	if k.isReadToEnd(c) {
		return true, nil
	}
	head, err := k.readHead(c)
	isCut := k.Path == c.real && k.hasBegun(head)
	if err == nil && k.file != nil && !c.packed && k.begins(head) && !k.endsIn(k.file, c.size) {
		return false, nil // it was emptied, and begins as before
	}
	if (isCut || k.HeadSize < headSize) && !k.isBorn(c) || k.IsPacked && k.HeadSize == 0 {
		return false, err // a short head is no proof, and an archive gets no more text
	}
	return isCut || k.begins(head), err
}

// isBorn reports whether c, which has the inode of k and whose head was read, has had it since then. An open file's inode
// goes to no other.
func (k *known) isBorn(c *candidate) bool { return k.file != nil || k.Born == c.born }

// isReadToEnd reports whether nothing was written to c since.
func (k *known) isReadToEnd(c *candidate) bool {
	return k.Size == c.size && !k.Modified.IsZero() && k.Modified.Equal(c.modified)
}

// begins reports whether a text that begins with head can be the text of k.
func (k *known) begins(head []byte) bool {
	return len(head) >= k.HeadSize && (k.HeadSize == 0 || sum(head[:k.HeadSize]) == k.Sum)
}

// hasBegun reports whether head, which is shorter than what is known of k, has its first lines.
func (k *known) hasBegun(head []byte) bool {
	whole := head[:bytes.LastIndexByte(head, '\n')+1]
	return len(head) < k.HeadSize && len(whole) > 0 && k.Ends[len(whole)] == sum(whole)[:endSum]
}

// endsIn reports whether the bytes before the offset are still those that were read, if that can be told.
func (k *known) endsIn(file io.ReaderAt, size int64) bool {
	if k.EndSize == 0 || size < k.Offset {
		return true
	}
	end := make([]byte, k.EndSize)
	n, _ := file.ReadAt(end, k.Offset-int64(k.EndSize))
	return n == len(end) && sum(end) == k.End
}

// setEnd keeps what is before the offset.
func (k *known) setEnd(end []byte) { k.end, k.End, k.EndSize = end, sum(end), len(end) }

// setHead keeps what is known of a file that begins with head.
func (k *known) setHead(head []byte) {
	if len(head) == k.HeadSize && k.Ends != nil {
		return
	}
	k.Sum, k.HeadSize, k.Ends = sum(head), len(head), map[int]string{}
	for i, b := range head {
		if b == '\n' {
			k.Ends[i+1] = sum(head[:i+1])[:endSum]
		}
	}
}

func sum(head []byte) string {
	s := sha256.Sum256(head)
	return hex.EncodeToString(s[:12])
}

// readHead returns the beginning of a file's text, and updates what is known of c.
func (k *known) readHead(c *candidate) (head []byte, err error) {
	file := k.file
	if file == nil {
		if file, err = c.open(); err != nil {
			return nil, err
		}
		defer file.Close() //nolint:errcheck // it was only read
	}
	info, err := file.Stat()
	if err != nil {
		return nil, named(c.path, err)
	}
	c.size, c.modified, c.born = info.Size(), info.ModTime(), born(file) // at its path may be another by now
	c.head, c.packed, err = headOf(file)
	return c.head, named(c.path, err)
}

// headOf returns the beginning of the text of an open file.
func headOf(file *os.File) (head []byte, packed bool, err error) {
	head = make([]byte, headSize)
	n, err := io.ReadFull(io.NewSectionReader(file, 0, headSize), head)
	if head = head[:n]; compression(head) != "" {
		d := new(Decompressor)
		text, err := d.Open(io.NewSectionReader(file, 0, 1<<62))
		if err != nil {
			return nil, true, err
		}
		head = make([]byte, headSize)
		n, err = io.ReadFull(text, head)
		return head[:n], text != d.packed, endsWell(err)
	}
	return head, false, endsWell(err)
}

func endsWell(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// recognize finds out which known file c is, by its text: nil if it is a copy of one that is there.
func (p *poll) recognize(c *candidate, similar index) (*known, error) {
	_, err := (&known{}).readHead(c)
	if err != nil && len(c.head) < headSize {
		if errors.Is(err, errCut) && p.paths[strings.TrimSuffix(c.path, filepath.Ext(c.path))] {
			return nil, nil // it is being made of the file beside it
		}
		return nil, err
	}
	if seen, ok := p.copies[c.id]; ok && seen.of.at != nil && seen.size == c.size && seen.modified.Equal(c.modified) &&
		(!c.isLive || !seen.of.at.isLive) {
		return nil, nil
	}
	delete(p.copies, c.id)
	var found *known
	isSure, isShort := false, false
	shared := shared{}
	for _, k := range similar.of(c) {
		isFull, isFamily := k.HeadSize == headSize, k.Base == c.base
		if k.at != nil {
			if k.at.isLive && c.isLive || !isFamily && (c.isLive || !isFull) ||
				!k.begins(c.head) && (!isFamily || c.isLive || len(c.head) >= k.HeadSize ||
					k.at.base != "" && !k.hasBegun(c.head) && bytes.IndexByte(c.head, '\n') >= 0) {
				continue
			}
			s, err := p.compare(c, k)
			if err != nil {
				return nil, err
			}
			switch {
			case !s.isCopy && isFull && k.at.base == "" && k.at.path == c.real:
				// It took the place of a log that is still open: edited, or another. It waits until that one is closed.
				return nil, nil
			case !s.isCopy || s.size < headSize && (c.isLive || s.isLonger):
			case !s.isLonger:
				if c.id != (inode{}) {
					p.copies[c.id] = copied{k, c.size, c.modified}
				}
				return nil, nil
			case s.size > shared.size:
				shared = s // c continues where k ends
				shared.fields = k.Fields
			}
			continue
		}
		if k.IsEmptied && isFamily && !c.isLive && found == nil && k.hasBegun(c.head) {
			found = k // the copy was made before the last lines came
		}
		switch {
		case k.Offset == 0 || !k.begins(c.head) || !isFull && (!isFamily || c.isLive && k.Inode != c.id.Inode):
		case c.isLive && (k.IsEmptied || p.paths[k.Path] && k.Path != c.real): // another file
		default:
			ends, reaches, err := c.ends(k)
			if err != nil {
				return nil, err
			}
			// A live log whose end is another may have been edited, or replaced.
			if (ends || !reaches || c.isLive) &&
				(found == nil || ends && !isSure || ends == isSure && k.HeadSize > found.HeadSize) {
				found, isSure, isShort = k, ends, !ends && !k.IsEmptied
			}
		}
	}
	switch {
	case found == nil:
		found = &known{key: rand.Text()}
		p.known = append(p.known, found)
		if shared.size > 0 { // what it has in common with the other file is read there
			found.Offset, found.Lines, found.Fields = shared.size, shared.lines, shared.fields
		}
	case isShort:
		found.hasLost, found.EndSize = true, 0
	}
	if !c.packed && c.size < found.Offset { // a copy does not have what was read after it was made
		found.Offset, found.EndSize = c.size, 0
	}
	found.setHead(c.head)
	found.IsEmptied = false
	found.Size, found.Modified, found.IsPacked = 0, time.Time{}, c.packed // it has yet to be read to its end
	found.move(p.sources[c.source].Where, c)
	similar.add(found)
	return found, nil
}

// index finds the known files that can have the text of another, by the hash of a whole head, or by the base, after a
// word for the size of the head.
type index map[[2]string][]*known

func (x index) add(k *known) {
	if k.ETag != "" {
		return
	}
	size := "short"
	if k.HeadSize == headSize {
		size = "whole"
		x[[2]string{"head", k.Sum}] = append(x[[2]string{"head", k.Sum}], k)
	}
	x[[2]string{size, k.Base}] = append(x[[2]string{size, k.Base}], k)
}

// of returns what can have the text of a file: all that begin as it does, and of its base all of which a whole head
// is not known. A short one can be a copy of any of its base.
func (x index) of(c *candidate) []*known {
	other := x[[2]string{"whole", c.base}]
	if len(c.head) == headSize {
		other = x[[2]string{"head", sum(c.head)}]
	}
	return slices.Concat(x[[2]string{"short", c.base}], other)
}

// copied names the original of a copy, with the size and time at which the two were compared.
type copied struct {
	of       *known
	size     int64
	modified time.Time
}

// text opens the text of a file, decompressed.
func (c *candidate) text() (io.Reader, *os.File, error) {
	file, err := c.open()
	if err != nil {
		return nil, nil, err
	}
	text, err := Decompress(file)
	if err != nil {
		return nil, nil, errors.Join(named(c.path, err), file.Close())
	}
	return text, file, nil
}

// ends reports whether the text of c has, where the offset of k is, the bytes that were read there. It does not reach
// so far if it is shorter. What cannot be told of k ends so.
func (c *candidate) ends(k *known) (ends, reaches bool, err error) {
	text, file, err := c.text()
	if err != nil {
		return false, false, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	_, err = io.CopyN(io.Discard, text, k.Offset-int64(k.EndSize))
	end := make([]byte, k.EndSize)
	if err == nil {
		_, err = io.ReadFull(text, end)
	}
	if err != nil {
		if errors.Is(err, errCut) {
			err = nil
		}
		return false, false, named(c.path, endsWell(err))
	}
	return k.EndSize == 0 || sum(end) == k.End, true, nil
}

// shared is what two files have in common.
type shared struct {
	size     int64 // whole lines of the text
	lines    int
	fields   string // the last #Fields line of the second
	isCopy   bool   // one begins with all of the other
	isLonger bool   // there is more in the first
}

// compare reads the texts of c and k, whose file exists, as far as they are equal.
func (p *poll) compare(c *candidate, k *known) (s shared, err error) {
	one, file, err := c.text()
	if err != nil {
		return s, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	var other io.Reader
	if k.file != nil {
		other, err = Decompress(io.NewSectionReader(k.file, 0, 1<<62))
	} else {
		var original *os.File
		if other, original, err = k.at.text(); err == nil {
			defer original.Close() //nolint:errcheck // it was only read
		}
	}
	if err != nil {
		return s, err
	}
	a, b := make([]byte, 64<<10), make([]byte, 64<<10)
	for size := int64(0); ; {
		if err = context.Cause(p.ctx); err != nil {
			return s, err
		}
		// Of the copy first: what it has, its original had before, unless that was emptied.
		n, err := io.ReadFull(one, a)
		if endsWell(err) != nil && !errors.Is(err, errCut) {
			return s, named(c.path, err)
		}
		m, otherErr := io.ReadFull(other, b[:n])
		if endsWell(otherErr) != nil && !errors.Is(otherErr, errCut) {
			return s, named(k.at.path, otherErr)
		}
		same := 0
		for same < m && a[same] == b[same] {
			same++
		}
		if last := bytes.LastIndexByte(a[:same], '\n') + 1; last > 0 {
			s.size, s.lines = size+int64(last), s.lines+bytes.Count(a[:last], []byte("\n"))
		}
		size += int64(same)
		switch {
		case same < m:
			return s, nil
		case m < n:
			if size < k.Offset && !k.IsPacked { // k was emptied since it was listed
				return s, errChanged
			}
			s.isCopy, s.isLonger = true, true
			return s, nil
		case err != nil:
			s.isCopy = true
			return s, nil
		}
	}
}

// move notes where k is now.
func (k *known) move(where string, c *candidate) {
	if k.inode != c.id {
		k.Born = c.born
	}
	k.at, k.Where, k.Base, k.Path, k.inode = c, where, cmp.Or(c.base, k.Base), c.real, c.id
}

// read gives what is new in a file.
func (p *poll) read(k *known) error {
	c := k.at
	if k.active.IsZero() || c.isLive || !k.isReadToEnd(c) {
		k.active = p.now()
	}
	// A last line without a newline is complete once the file is no longer written to.
	isEnded := !c.isLive && p.now().Sub(k.active) >= grace && k.Offset < k.Size && !k.IsPacked
	if k.isReadToEnd(c) && (k.file != nil || !c.isLive) && !isEnded {
		return nil
	}
	if k.failed != nil && k.failedSize == c.size && k.failedSince.Equal(c.modified) {
		return k.failed
	}
	file := k.file
	if file == nil {
		var err error
		if file, err = c.open(); err != nil {
			return err
		}
		defer func() {
			if k.file != file {
				file.Close() //nolint:errcheck // it was only read
			}
		}()
	}
	info, err := file.Stat()
	if err != nil {
		return named(c.path, err)
	}
	// Everything up to this size is read. The head is read after it, and once more after each chunk: as long as it is
	// the same, the file was not emptied.
	size := info.Size()
	head, packed, err := headOf(file)
	k.IsPacked = packed
	switch {
	case packed:
		err = named(c.path, p.archive(k, io.NewSectionReader(file, 0, size), size, info.ModTime()))
		if p.stopped == nil && !errors.Is(err, ErrWait) {
			k.failed, k.failedSize, k.failedSince = err, size, info.ModTime()
		}
		return err
	case err != nil:
		return named(c.path, err)
	case !k.begins(head) || len(head) < int(min(size, headSize)):
		return errChanged
	}
	if !k.endsIn(file, size) {
		if k.file != nil {
			return errChanged // it was emptied, and begins as before
		}
		// After a power cut the end of the file may be lost, and have been written again with other lines.
		k.EndSize = 0
		if err := p.give(k, Chunk{Source: c.source, PossiblyLost: true}); err != nil {
			return err
		}
	}
	if c.isLive {
		k.file = file
	}
	k.setHead(head)
	end := make([]byte, min(k.Offset, endSize))
	if n, _ := file.ReadAt(end, k.Offset-int64(len(end))); n == len(end) {
		k.setEnd(end)
	}
	section := io.NewSectionReader(file, k.Offset, size-k.Offset)
	err = ReadLines(section, Part{First: k.Lines + 1, Open: !isEnded, Fields: k.Fields}, func(lines Lines) error {
		again := make([]byte, len(head))
		if n, _ := file.ReadAt(again, 0); n < len(head) || !bytes.Equal(again, head) {
			lines.Free()
			return errChanged
		}
		k.active = p.now()
		return p.give(k, Chunk{Source: c.source, Lines: lines})
	})
	if err == nil {
		k.Size, k.Modified = size, info.ModTime()
	}
	return named(c.path, err)
}

// archive gives what is new in a file, or an object, that gets no more lines: at its end also a line without one.
func (p *poll) archive(k *known, packed io.Reader, size int64, modified time.Time) error {
	text, err := p.unpack.Open(packed)
	if err != nil {
		return err
	}
	text = &bounded{text, max(p.freeText, mostRatio*size)}
	head := make([]byte, headSize)
	n, err := io.ReadFull(text, head)
	head = head[:n]
	if err = endsWell(err); err != nil {
		text = io.MultiReader(bytes.NewReader(head), failing{err})
	} else {
		text = io.MultiReader(bytes.NewReader(head), text)
	}
	if !k.begins(head) {
		return errChanged
	}
	k.setHead(head)
	end := make([]byte, min(k.Offset, endSize))
	if _, err = io.CopyN(io.Discard, text, k.Offset-int64(len(end))); err == nil {
		if _, err = io.ReadFull(text, end); err == nil {
			k.setEnd(end)
		}
	}
	if endsWell(err) != nil {
		return err
	}
	err = ReadLines(text, Part{First: k.Lines + 1, Fields: k.Fields}, func(lines Lines) error {
		return p.give(k, Chunk{Source: k.at.source, Lines: lines})
	})
	if err != nil {
		return err
	}
	k.Size, k.Modified = size, modified
	return p.give(k, Chunk{Source: k.at.source})
}

// bounded fails after some bytes.
type bounded struct {
	io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errBomb
	}
	return n, err
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
