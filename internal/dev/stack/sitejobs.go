package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/codehost/fake"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/must"
	"github.com/docgauge/docgauge/internal/docsapi"
)

// siteJob is what became of an agent job of a site.
type siteJob struct {
	Host, Prompt string // name of the code host; see files/tools/agent.sh
	Job          docsapi.Job
}

// siteToken is the token for the code hosts, which agents must not get.
const siteToken = "token-of-the-stack"

// runSiteJobs starts a code host of each kind and site serve with its repository, and runs jobs of an agent
// that edits, one that only says so, one that floods its output, one that changes CI and one that attacks.
func (s *stack) runSiteJobs(ctx context.Context) {
	if _, err := exec.LookPath("bwrap"); err != nil || s.repository == "" {
		must.Do(engines.Missing{Engine: "bubblewrap", Install: "apt-get install bubblewrap git"})
	}
	for _, kind := range codehost.Hosts {
		if err := must.Try(func() { s.siteJobsOn(ctx, kind) }); err != nil {
			must.Do(fmt.Errorf("%s: %w", kind.Title, err))
		}
	}
}

func (s *stack) siteJobsOn(ctx context.Context, kind codehost.Host) {
	dir, project := "site-"+kind.Name, "docs-team/docs"
	if kind.Name == "gitlab" {
		project = "docs-team/web/docs"
	}
	bare := s.path(dir, "repositories", filepath.FromSlash(project))
	must.Do(os.MkdirAll(filepath.Dir(bare), 0o700))
	run(exec.CommandContext(ctx, "git", "clone", "--quiet", "--bare", "--single-branch", s.repository, bare))
	host := fake.NewHost(kind.Name, project, siteToken)
	git := must.Get(engines.GitServer(s.path(dir, "repositories"), host.GitAuthorization()))
	mux := http.NewServeMux()
	mux.Handle(host.Prefix+"/", host)
	mux.Handle("/", git)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go server.Serve(listener) //nolint:errcheck // it ends with Stop
	s.stops = append(s.stops, server.Close)
	web := "http://" + listener.Addr().String()
	api, _ := s.serveSite(dir,
		"DOCGAUGE_SITE_REPO="+web+"/"+project,
		"DOCGAUGE_SITE_CODE_HOST="+kind.Name, "DOCGAUGE_SITE_CODE_HOST_URL="+web+host.Prefix,
		"DOCGAUGE_SITE_TOKEN="+siteToken,
		"DOCGAUGE_SITE_AGENT=command", "DOCGAUGE_SITE_AGENT_COMMAND=sh "+s.path("tools", "agent.sh"),
		"DOCGAUGE_SITE_AGENT_TOOLS="+s.path("tools"),
		"DOCGAUGE_SITE_CHECK_COMMAND=test -s index.md")
	key := s.siteKey(ctx, dir, "admin")
	service := must.Get(docsapi.New(docsapi.ClientOptions{BaseURL: api, APIKey: docsapi.StaticKey(key)}))
	prompts, ids := []string{"edit", "cheat", "flood", "ci", "attack " + web + "/" + project}, map[string]string{}
	for _, prompt := range prompts {
		job, err := service.CreateJob(ctx, siteProject, prompt, "")
		if err != nil && strings.Contains(err.Error(), "jail") {
			must.Do(engines.Missing{Engine: "bubblewrap that works here", Install: "apt-get install bubblewrap"})
		}
		must.Do(err)
		ids[prompt] = job.ID
	}
	for _, prompt := range prompts {
		name, _, _ := strings.Cut(prompt, " ")
		for {
			job := must.Get(service.Job(ctx, siteProject, ids[prompt]))
			if job.Status != docsapi.StatusActive {
				s.SiteJobs = append(s.SiteJobs, siteJob{Host: kind.Name, Prompt: name, Job: job})
				break
			}
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
				must.Do(context.Cause(ctx))
			}
		}
	}
}
