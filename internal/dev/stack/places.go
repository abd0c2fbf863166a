package stack

import (
	"context"
	"encoding/json"
	"fmt"
)

// Place is something to look at.
type Place struct{ Name, Where string }

// Places lists what there is, for people. It writes a report first.
func (s *Stack) Places(ctx context.Context) ([]Place, error) {
	places := []Place{
		{"status page", s.URL + "/"},
		{"metrics", s.URL + "/metrics"},
	}
	if s.Prometheus != nil {
		places = append(places, Place{"Prometheus", s.Prometheus.URL + "/"}, Place{"alerts", s.alertsPage(ctx)})
	}
	if s.Alertmanager != nil {
		places = append(places, Place{"Alertmanager", s.Alertmanager.URL + "/"})
	}
	if s.ClickHouse != nil {
		places = append(places, Place{"ClickHouse", s.ClickHouse.DSN("default") + " and http://" + s.ClickHouse.HTTPAddr() + "/"})
	}
	pulls, err := s.pulls(ctx)
	if err != nil {
		return nil, err
	}
	places = append(places, pulls...)
	if _, err := s.docgauge(ctx, nil, "report", "--output="+s.path("report.html")); err != nil {
		return nil, err
	}
	return append(places,
		Place{"report", s.path("report.html")},
		Place{"sandbox", s.API},
		Place{"prompts", s.path("prompts")},
		Place{"Parquet files", s.path("data")}), nil
}

// pulls lists the pull requests of the agent jobs.
func (s *Stack) pulls(ctx context.Context) ([]Place, error) {
	text, err := s.docgauge(ctx, nil, "jobs", "list", "--json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Jobs []struct {
			Prompt string `json:"prompt"`
			PRLink string `json:"pr_link"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("docgauge jobs list --json: %w", err)
	}
	var pulls []Place
	for _, job := range list.Jobs {
		if job.PRLink != "" {
			pulls = append(pulls, Place{"pull request", job.PRLink + " (" + job.Prompt + ")"})
		}
	}
	return pulls, nil
}

// alertsPage is elsewhere on Debian's Prometheus, which has the classic pages only.
func (s *Stack) alertsPage(ctx context.Context) string {
	page := s.Prometheus.URL + "/alerts"
	if _, err := get(ctx, page); err != nil {
		return s.Prometheus.URL + "/classic/alerts"
	}
	return page
}
