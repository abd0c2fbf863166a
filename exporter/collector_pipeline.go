package exporter

import (
	"runtime"

	"github.com/docgauge/docgauge/internal/analytics"
)

func (s series) pipeline() {
	s.timestamp(ExportLastStart, s.LastStart)
	s.timestamp(ExportLastCompletion, s.LastCompletion)
	s.timestamp(ExportLastSuccess, s.LastSuccess)
	s.timestamp(BacklogFinish, s.Finish)
	s.timestamp(SnapshotTimestamp, s.At)
	for _, d := range s.Due {
		s.gauge(WindowsDue, float64(d.Count), d.Project, string(d.Granularity), d.Reason)
	}
	s.asides()
	for _, sink := range s.Sinks {
		s.timestamp(SinkLastCommit, sink.LastCommit, sink.Name)
		s.gauge(SpoolWindows, float64(sink.Waiting), sink.Name)
	}
}

// asides writes how many windows are set aside, for each project and reason.
func (s series) asides() {
	type of struct {
		project string
		reason  analytics.AsideReason
	}
	counts := map[of]int{}
	for _, a := range s.Asides {
		counts[of{a.Project, a.Reason}]++
	}
	for _, p := range s.Projects {
		for _, reason := range AsideReasons {
			s.gauge(WindowsSetAside, float64(counts[of{p.ID, reason}]), p.ID, string(reason))
		}
	}
}

func (s series) api() {
	for _, b := range s.Budgets {
		s.gauge(APIBudgetLimit, float64(b.Limit), b.Name)
		if b.Limit > 0 {
			s.gauge(APIBudgetRemaining, float64(b.Remaining), b.Name)
		}
	}
	for _, k := range s.Keys {
		s.timestamp(APIKeyExpiry, k.Expires, k.Name)
		s.flag(APIKeyRejected, k.Rejected, k.Name)
	}
}

func (s series) build() {
	s.gauge(BuildInfo, 1, s.Version, s.Revision, runtime.Version())
}
