package schedule

import "github.com/docgauge/docgauge/internal/analytics"

// Coverage says how much of what a project and spec should have is in the ledger.
type Coverage struct {
	Project string
	Spec    analytics.Spec
	// Newest is the revision of the newest window below, nil if there is none.
	Newest *analytics.Revision
	// Known counts the windows in the ledger among those a plan is about: the
	// newest complete one, those that begin on or after Since, and older ones
	// that are provisional. Settled windows from before Since are not seen.
	Known int
	// Gaps are the windows that [Due] calls missing, newest first.
	Gaps []analytics.Window
	// Provisional and Unverified count among Known; a window can be both.
	Provisional, Unverified int
}

// Cover returns the coverage of one project and spec.
func Cover(in Input, project string, spec analytics.Spec) Coverage {
	p, c := newPlanner(in), Coverage{Project: project, Spec: spec}
	for w := range p.windows(project, spec.Granularity) {
		item, revision, known := p.item(project, spec, w)
		if p.wants(item, revision, known) {
			c.Gaps = append(c.Gaps, w)
		}
		if known {
			c.add(revision)
		}
	}
	return c
}

func (c *Coverage) add(r analytics.Revision) {
	c.Known++
	if c.Newest == nil {
		c.Newest = &r
	}
	if !r.Settled {
		c.Provisional++
	}
	if !r.Verified {
		c.Unverified++
	}
}
