package cli

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// TestCapOnOpenPullsOverProcesses: three processes at once, over 50 prompts, open as many
// pull requests as the cap allows, with and without a token.
func TestCapOnOpenPullsOverProcesses(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "ghp_any"} {
		s := testbed.NewService(t, sandbox.Config{Agent: sandbox.Agent{After: 10 * time.Millisecond}})
		files := map[string]string{}
		for i := range 50 {
			files[fmt.Sprintf("%02d.md", i)] = fmt.Sprintf("Do %d.", i)
		}
		p := queuePlace(t, s, files, "DOCGAUGE_MAX_OPEN_PULL_REQUESTS=4", "DOCGAUGE_MAX_JOBS_PER_DAY=0",
			"DOCGAUGE_MAX_ACTIVE_JOBS=0",
			"DOCGAUGE_GITHUB_URL="+s.URL+"/github", "DOCGAUGE_GITHUB_TOKEN="+token)
		for range 2 {
			var processes sync.WaitGroup
			for range 3 {
				processes.Go(func() {
					if code, _, stderr := p.try(t, "jobs", "run", "--wait"); code != exitDone && code != exitLocked {
						t.Errorf("exit code %d: %s", code, stderr)
					}
				})
			}
			processes.Wait()
			_, body, err := testbed.Fetch(t.Context(),
				s.URL+"/github/repos/docgauge/sandbox/pulls?state=all&per_page=100")
			var pulls []struct{ Number int }
			if err != nil || json.Unmarshal([]byte(body), &pulls) != nil || len(pulls) != 4 {
				t.Errorf("%d pull requests, %v: %.300s", len(pulls), err, body)
			}
		}
	}
}
