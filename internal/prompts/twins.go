package prompts

import "os"

// twins finds one file under several names, through links: it would be sent once
// for each of them. A symbolic link to a file that is a prompt already is wrong; of
// other names nobody knows which is meant, so all of them are.
func (g *graph) twins() {
	type alike struct {
		sum     [32]byte
		written int64
	}
	groups := map[alike][]*file{}
	for _, f := range g.files {
		if f.info == nil {
			continue
		}
		k := alike{f.sum, f.info.ModTime().UnixNano()}
		for _, other := range groups[k] {
			if !os.SameFile(f.info, other.info) {
				continue
			}
			if f.linked || !other.linked {
				g.find(f, 0, "the same file as "+other.path+", through a link: remove one of them")
			}
			if other.linked || !f.linked {
				g.find(other, 0, "the same file as "+f.path+", through a link: remove one of them")
			}
		}
		groups[k] = append(groups[k], f)
	}
}
