package dashboards

import "github.com/docgauge/docgauge/dashboards/grafana"

// The names that addresses have, /d/UID; they never change.
const (
	uidReaders  = "docgauge-readers"
	uidHistory  = "docgauge-history"
	uidJobs     = "docgauge-agent-jobs"
	uidPipeline = "docgauge-pipeline"
)

// All returns the dashboards, each with links to the others.
func All() []grafana.Dashboard {
	all := []grafana.Dashboard{readers(), history(), jobs(), pipeline()}
	for i := range all {
		for j := range all {
			if i != j {
				all[i].Links = append(all[i].Links, all[j].To(shareVariables(all[i], all[j])))
			}
		}
	}
	return all
}

// shareVariables reports whether one dashboard can take the values of another's
// variables: history takes one project, and the others offer several.
func shareVariables(from, to grafana.Dashboard) bool {
	return to.UID != uidHistory || from.UID == uidHistory
}

// Files returns the files of json/, by name.
func Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, d := range All() {
		text, err := d.JSON()
		if err != nil {
			return nil, err
		}
		files[d.UID+".json"] = text
	}
	return files, nil
}
