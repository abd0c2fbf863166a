package web

import (
	"net/http"

	"github.com/docgauge/docgauge/internal/view"
)

// jobsHandler serves /jobs: the prompt queue, the agent's jobs, and what became of the readers after the merges of one
// project. It is made once for each snapshot.
type jobsHandler struct {
	site  *Site
	cache pageCache[siteValues]
}

func (h *jobsHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header(), reportKind().livePolicy)
	if readOnly(w, r) {
		page, err := h.answer(r)
		page.send(w, r, err)
	}
}

func (h *jobsHandler) answer(r *http.Request) (rendered, error) {
	v := siteValues{snapshot: h.site.Current()}
	if v.snapshot == nil {
		return starting(h.site.Version, atJobs)
	}
	a := &address{page: atJobs, snapshot: v.snapshot, cell: -1}
	q, err := readQuestion(r.URL.RawQuery, []string{"project"}, 1, 0)
	if err != nil {
		err = addressError{code: http.StatusBadRequest, text: err.Error() + "."}
	} else {
		err = a.chooseProject(q.project)
	}
	if err != nil {
		return refusal(a, err, h.site.Version)
	}
	return h.cache.page(v, a.project.ID, func() ([]byte, int, error) {
		report := v.report(a, true, true)
		report.Version = h.site.Version
		report.Projects = []view.Project{{ID: a.project.ID, Name: a.project.Name}}
		p := report.page()
		p.Title, p.Navigation, p.Picker = a.name(), navigation(v.snapshot, atJobs, a), a.picker()
		page, err := reportKind().render("jobspage", p)
		return page, http.StatusOK, err
	})
}
