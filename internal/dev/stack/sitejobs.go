package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/dev/engines"
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
func (s *stack) runSiteJobs(ctx context.Context) error {
	if _, err := exec.LookPath("bwrap"); err != nil || s.repository == "" {
		return engines.Missing{Engine: "bubblewrap", Install: "apt-get install bubblewrap git"}
	}
	for _, kind := range codehost.Hosts {
		if err := s.siteJobsOn(ctx, kind); err != nil {
			return fmt.Errorf("%s: %w", kind.Title, err)
		}
	}
	return nil
}

func (s *stack) siteJobsOn(ctx context.Context, kind codehost.Host) error {
	dir, project := "site-"+kind.Name, "docs-team/docs"
	if kind.Name == "gitlab" {
		project = "docs-team/web/docs"
	}
	bare := s.path(dir, "repositories", filepath.FromSlash(project))
	if err := os.MkdirAll(filepath.Dir(bare), 0o700); err != nil {
		return err
	}
	clone := exec.CommandContext(ctx, "git", "clone", "--quiet", "--bare", "--single-branch", s.repository, bare)
	if out, err := clone.CombinedOutput(); err != nil {
		return fmt.Errorf("git clone: %w: %s", err, out)
	}
	host := engines.NewCodeHost(kind.Name, project, siteToken)
	user := "x-access-token"
	if kind.Name == "gitlab" {
		user = "oauth2"
	}
	git, err := engines.GitServer(s.path(dir, "repositories"),
		"Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+siteToken)))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(host.Prefix+"/", host)
	mux.Handle("/", git)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go server.Serve(listener) //nolint:errcheck // it ends with Stop
	s.stops = append(s.stops, server.Close)
	web := "http://" + listener.Addr().String()
	settings := []string{
		"DOCGAUGE_SITE_REPO=" + web + "/" + project,
		"DOCGAUGE_SITE_CODE_HOST=" + kind.Name, "DOCGAUGE_SITE_CODE_HOST_URL=" + web + host.Prefix,
		"DOCGAUGE_SITE_TOKEN=" + siteToken,
		"DOCGAUGE_SITE_AGENT=command", "DOCGAUGE_SITE_AGENT_COMMAND=sh " + s.path("tools", "agent.sh"),
		"DOCGAUGE_SITE_AGENT_TOOLS=" + s.path("tools"),
		"DOCGAUGE_SITE_CHECK_COMMAND=test -s index.md",
	}
	api, _, err := s.serveSite(dir, settings...)
	if err != nil {
		return err
	}
	key, err := s.siteKey(ctx, dir, "admin")
	if err != nil {
		return err
	}
	service, err := docsapi.New(docsapi.ClientOptions{BaseURL: api, APIKey: docsapi.StaticKey(key)})
	if err != nil {
		return err
	}
	prompts, ids := []string{"edit", "cheat", "flood", "ci", "attack " + web + "/" + project}, map[string]string{}
	for _, prompt := range prompts {
		job, err := service.CreateJob(ctx, siteProject, prompt)
		if err != nil && strings.Contains(err.Error(), "jail") {
			return engines.Missing{Engine: "bubblewrap that works here", Install: "apt-get install bubblewrap"}
		}
		if err != nil {
			return err
		}
		ids[prompt] = job.ID
	}
	for _, prompt := range prompts {
		name, _, _ := strings.Cut(prompt, " ")
		for {
			job, err := service.Job(ctx, siteProject, ids[prompt])
			if err != nil {
				return err
			}
			if job.Status != docsapi.StatusActive {
				s.SiteJobs = append(s.SiteJobs, siteJob{Host: kind.Name, Prompt: name, Job: job})
				break
			}
			select {
			case <-time.After(200 * time.Millisecond):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}
