package sandbox

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// What a zero Agent stands for.
const (
	DefaultWorkers = 4
	// DefaultModel is what jobs name as their model: nobody knows what a command asks.
	DefaultModel = "docgauge-sandbox"
)

const maxWorkers = 1000

// Agent describes the agent half of the service. The zero value pretends: a job
// is completed at once, with a pull request of the sandbox that adds one line.
type Agent struct {
	// Script is a file for agent.ReadScript; empty = the built-in words alone.
	Script string
	// After is how long an instruction takes that has no duration by script.
	After time.Duration
	// Workers is how many instructions are worked on at once; 0 = DefaultWorkers.
	Workers int
	// ArchiveAfter the end of its last instruction a job is archived; 0 = never.
	ArchiveAfter time.Duration
	// PublicURL begins the links of pull requests on this sandbox; empty = the
	// host the reader of the job asked.
	PublicURL string
	// Repo is a local git repository that jobs really edit; nil = they pretend.
	Repo   *Repo
	Faults AgentFaults
}

// Repo is a git repository and where its pull requests go.
type Repo struct {
	// Path of the repository, the branch pull requests are for (empty = the one
	// checked out), the command that edits files, its time-out, and what it gets of
	// the environment: see worktree.Config.
	Path, Base, Command string
	Timeout             time.Duration
	Env                 []string
	// GitHub is "owner/name" where pull requests are opened on GitHub, GitHubURL its
	// REST API (empty = codehost.DefaultGitHub), Remote where branches are pushed to
	// (empty = "origin"), and Token returns the token. Empty = they are kept here.
	GitHub, GitHubURL, Remote string
	Token                     func() (string, error)
}

// AgentFaults are injected into agent POSTs, creates and messages alike; the
// zero value injects none. POSTs are numbered apart from all other requests,
// from 1: those that passed authentication for Latency and ThrottleEvery, those
// that were accepted for the faults after accepting.
type AgentFaults struct {
	// Latency before a POST is accepted, also if the client has gone.
	Latency time.Duration
	// RateLimit is how many POSTs pass in a sliding hour, for each project; one
	// more gets 429 and is not counted. 0 = no limit; the live service has 100.
	RateLimit int
	// ThrottleEvery Nth POST gets 429; 0 = none. Retry-After is Faults.RetryAfter.
	ThrottleEvery int
	// DropEvery Nth accepted POST has its connection closed instead of a reply.
	DropEvery int
	// BadGatewayEvery Nth accepted POST gets 502.
	BadGatewayEvery int
	// StallEvery Nth accepted POST waits for Stall with its reply; 0 = each.
	Stall      time.Duration
	StallEvery int
}

func (a Agent) withDefaults() Agent {
	if a.Workers == 0 {
		a.Workers = DefaultWorkers
	}
	return a
}

// validate lists every problem of a at once.
func (a Agent) validate() error {
	f := a.Faults
	timeout := int64(0)
	if a.Repo != nil {
		timeout = int64(a.Repo.Timeout)
	}
	return errors.Join(
		a.validatePublicURL(),
		between("agent workers", a.Workers, 1, maxWorkers),
		notNegative([]quantity{
			{"agent duration", int64(a.After)}, {"agent archive after", int64(a.ArchiveAfter)}, {"agent timeout", timeout},
			{"agent latency", int64(f.Latency)}, {"agent rate limit", int64(f.RateLimit)},
			{"agent 429 every", int64(f.ThrottleEvery)}, {"agent drop every", int64(f.DropEvery)},
			{"agent 502 every", int64(f.BadGatewayEvery)}, {"agent stall", int64(f.Stall)}, {"agent stall every", int64(f.StallEvery)},
		}),
	)
}

func (a Agent) validatePublicURL() error {
	if a.PublicURL == "" {
		return nil
	}
	u, err := url.Parse(a.PublicURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery+u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("public URL %.200q: want http:// or https://, a host, and no path, such as http://docs.example:8787", a.PublicURL)
	}
	return nil
}
