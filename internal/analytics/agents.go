package analytics

import "fmt"

// MaxMisses is the largest number of missing paths in a window. If more were asked for, the window has the paths with
// the most requests.
const MaxMisses = 1000

// AgentRow is the unique readers of one agent on one path, and their requests. A path, an agent, an
// audience and Found occur together once. Readers are not additive: not over paths, and not over
// audiences.
type AgentRow struct {
	Path     string   `json:"path" about:"Empty: the whole site, of paths that are there."`
	Agent    string   `json:"agent" about:"People are the agents browser and unconfirmed."`
	Class    string   `json:"class"`
	Audience Audience `json:"audience"`
	Found    bool     `json:"found" about:"False: the path was asked for and is not there."`
	Visitors int64    `json:"visitors" about:"Unique readers do not add up over days, paths or audiences."`
	Requests int64    `json:"requests" about:"Of an agent that its vendor hosts they say more than its readers, few addresses."`
	Markdown int64    `json:"markdown" about:"Requests that were answered as Markdown."`
	Bytes    int64    `json:"bytes" about:"Bytes that were sent; -1 if the log does not say." least:"-1"`
}

// Compare orders rows as the report has them.
func (r AgentRow) Compare(other AgentRow) int {
	return shapes[AgentsReport].Compare(r.record(), other.record())
}

// record has the columns of the order.
func (r *AgentRow) record() Record {
	return Record{Texts: [maxTexts]string{r.Path, r.Agent, r.Class, string(r.Audience)}, Truths: [maxTruths]bool{r.Found}}
}

// checkAgent refuses a row of the site with paths that were not found.
func checkAgent(r Record) error {
	if r.Path() != "" || r.Truths[0] {
		return nil
	}
	return fmt.Errorf("agent %q: the site has no row of paths that were not found", r.Texts[1])
}
