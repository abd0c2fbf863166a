package follow

import "github.com/docgauge/docgauge/internal/filestore"

// bucket is a source of objects.
type bucket struct{ store filestore.Store }

func (p *poll) bucket(source int, where string, b *bucket) error { return nil }
