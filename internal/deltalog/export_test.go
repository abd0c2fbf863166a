package deltalog

import "io"

// EncodePart writes every parts-th action of the snapshot, from part on: as much as a part
// of a checkpoint has, whose parts may be in any order.
func (s *Snapshot) EncodePart(out io.Writer, part, parts int) error {
	n := 0
	_, err := encodeCheckpoint(out, func(yield func(action) bool) {
		for a := range s.actions() {
			if n++; n%parts == part && !yield(a) {
				return
			}
		}
	})
	return err
}
