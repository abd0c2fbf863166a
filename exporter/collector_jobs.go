package exporter

import (
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// jobs writes the prompt queue, if there is one.
func (s series) jobs() {
	if s.Queue == nil {
		return
	}
	for _, p := range s.Queue.Prompts {
		s.gauge(AgentPrompts, float64(p.Count), p.Project, p.State)
	}
	for _, reason := range PauseReasons {
		s.flag(AgentQueuePaused, s.Queue.Paused == reason || reason == pausedFolder && s.Queue.Problem != "", reason)
	}
	for _, c := range s.Queue.Caps {
		s.gauge(AgentCapLimit, float64(c.Limit), c.Name)
		s.gauge(AgentCapUsed, float64(c.Used), c.Name)
	}
	oldest := map[string]time.Time{}
	for _, j := range s.Queue.Jobs {
		s.job(j)
		if at, ok := oldest[j.Project]; j.ID != "" && j.Ended.IsZero() && (!ok || j.Created.Before(at)) {
			oldest[j.Project] = j.Created
		}
	}
	for _, p := range s.Projects {
		s.timestamp(AgentOldestActive, oldest[p.ID], p.ID)
	}
}

// job writes one job that the service knows.
func (s series) job(j Job) {
	if j.ID == "" {
		return
	}
	s.gauge(AgentJobInfo, 1, j.Project, j.Prompt, j.ID, j.Status, analytics.SafeLink(j.PRLink), j.Model, j.Repository, j.Ref)
	s.timestamp(AgentJobCreated, j.Created, j.Project, j.Prompt, j.ID)
	s.timestamp(AgentJobFinished, j.Ended, j.Project, j.Prompt, j.ID)
}
