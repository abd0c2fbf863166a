package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/git"
)

const (
	// keptOutput is the size of the end of a command's output that is kept, maxOutput that at which
	// the command is ended.
	keptOutput = 16 << 10
	maxOutput  = 64 << 20
	// closeDelay is the time that a command that has ended may keep its output open through
	// processes it started.
	closeDelay = 2 * time.Second
	// maxDiff is the size at which a diff is cut.
	maxDiff = 1 << 20
)

// Edit carries out t in a workplace made for it. What the files are at the end decides, not what the
// command says: a change that passes the check is the result however the command ended, and without
// a change the command must have ended well. A check that fails is told to the agent, which may try again in its
// session. The error has neither output nor prompt, but the words of an agent's error.
func (r *Repo) Edit(ctx context.Context, t Task) (result Result, err error) {
	release := r.claim(t.Job)
	defer func() { err = errors.Join(err, release()) }()
	w := r.place(t.Job)
	if t.Session != nil {
		_, home := os.Lstat(w.home())
		if t.Session.Agent != r.options.Preset || r.options.OwnHome && errors.Is(home, fs.ErrNotExist) {
			t.Session, result.NewSession = nil, true
		}
	}
	if r.options.Preset != "" { // until the agent begins, nothing is spent
		result.Report = &Report{Cost: new(0.0), Tokens: new(int64(0)), Session: t.Session}
	}
	c, tip, err := r.begin(ctx, t)
	// Without a change of the agent's, the result stays as it was.
	if result.Change = c; err == nil {
		c, err = r.refresh(ctx, t, c)
	}
	if err != nil {
		if mayPass(err) {
			result.Retries = maxRetries
		}
		return result, err
	}
	defer func() { err = errors.Join(err, w.clear()) }()
	start := c.Head // what the agent's files begin at
	if err := r.layOut(ctx, w, c.Branch, start); err != nil {
		return result, err
	}
	instead := false
	if r.options.Instead != nil {
		if instead, err = r.options.Instead(w.tree(), t); err != nil {
			return result, err
		}
	}
	message, left := r.title(t.Title, t.Prompt)+"\n\n", r.options.Timeout
	var ended, failed error // how the command and the check ended
	var tree string
	result.Report = nil
	defer func() { err = errors.Join(err, r.scrub(ctx, w)) }()
	for try := 0; ; try++ {
		if !instead {
			begun := time.Now()
			ended = r.runAgent(ctx, w, t, left, &result)
			left -= time.Since(begun)
		}
		if ctx.Err() != nil {
			return result, errors.Join(ended, context.Cause(ctx))
		}
		if errors.Is(ended, errDisk) {
			return result, ended
		}
		taken, submodules, err := r.takeIn(ctx, w, start)
		if err != nil {
			return result, errors.Join(err, ended)
		}
		switch {
		case taken == "" && failed != nil: // the agent has no answer to the check
			result.Retries = retries(ended)
			return result, withEnd(failed, ended)
		case taken == "":
			if result.Retries = retries(ended); ended == nil && len(submodules) > 0 {
				ended = fmt.Errorf("changed only submodules (%s), which are other repositories; change them there",
					strings.Join(submodules, ", "))
			}
			return r.finish(ctx, result, tip, ended)
		case len(submodules) > 0 && try == 0:
			message += "Left out: changes in submodules (" + strings.Join(submodules, ", ") + ").\n\n"
		}
		tree = taken
		if r.options.Check == "" {
			break
		}
		output, err := r.runCheck(ctx, w)
		if err == nil {
			break
		}
		failed = fmt.Errorf("the change does not pass DOCGAUGE_SITE_CHECK_COMMAND: %w: %s", err, lastLine(output))
		if result.Output = output; ended != nil || try >= r.options.CheckTries || left <= 0 || instead ||
			result.Report == nil || result.Report.Session == nil || errors.Is(err, errDisk) || ctx.Err() != nil {
			result.Retries = retries(ended)
			return result, withEnd(failed, ended)
		}
		// No branch has this commit: the agent goes on with it, without what the check left behind.
		if start, err = r.publish(ctx, w, message, c.Head, tree); err == nil {
			err = r.layOut(ctx, w, c.Branch, start)
		}
		if err != nil {
			return result, err
		}
		t.Session, t.Prompt = result.Report.Session, fmt.Sprintf(checkFailed, output)
	}
	if before, err := r.git.Run(ctx, "rev-parse", "--verify", c.Head+"^{tree}"); err != nil || tree == before {
		return r.finish(ctx, result, tip, err) // the agent took its change back
	}
	message += "Docgauge-Job: " + t.Job + "\n"
	if c.Head, err = r.publish(ctx, w, message, c.Head, tree); err != nil {
		return result, err
	}
	result.Change = c
	return r.finish(ctx, result, tip, nil)
}

// checkFailed is the prompt after a check that failed, with its output.
const checkFailed = `Your change does not pass the check that it must pass. This is the end of the check's output:

%s

Correct your change so that the check passes. Do not change the check.
`

// runCheck runs the check on the files that the agent left, with a home, a directory for temporary files and a
// repository made anew: what the agent left in these is no part of the change.
func (r *Repo) runCheck(ctx context.Context, w *workplace) (output string, err error) {
	if err := removeAll(w.tmp()); err != nil {
		return "", err
	}
	if err := errors.Join(w.make(false), os.Mkdir(w.checkHome(), 0o700)); err != nil {
		return "", err
	}
	if _, err := r.jailed(ctx, w, step{command: renewScript}); err != nil {
		return "", err
	}
	return r.run(ctx, w, step{name: "check", command: r.options.Check, home: w.checkHome()})
}

// runAgent runs the agent and adds its report to the result. The error is how it ended, by its exit code or by its
// report. A session that is lost is replaced by a new one.
func (r *Repo) runAgent(ctx context.Context, w *workplace, t Task, left time.Duration, result *Result) (ended error) {
	s := step{name: "agent", command: r.options.Command, stdin: t.Prompt, env: r.environ(), timeout: left,
		gateway: r.options.Gateway}
	p, ok := presets[r.options.Preset]
	if ok {
		s.command, s.listener = p.commandLine(r.options.Jail != nil, t.Session), &listener{preset: p}
	}
	result.Output, ended = r.run(ctx, w, s)
	last := lastLine(result.Output)
	if !ok {
		if ended != nil {
			ended = fmt.Errorf("%w: %s", ended, last)
		}
		return ended
	}
	report, reported := s.listener.report(t.Session, r.secrets())
	noReport := errors.Is(reported, errNoReport)
	if errors.Is(reported, errLost) || noReport && t.Session != nil && lost.MatchString(result.Output) {
		t.Session, result.NewSession = nil, true
		return r.runAgent(ctx, w, t, left, result)
	}
	if report.Session != nil {
		report.Session.Agent = r.options.Preset
	}
	result.Report = result.Report.plus(report)
	words := ""
	switch {
	case noReport:
		ended = fmt.Errorf("%w: %s", cmp.Or(ended, reported), last)
	case reported != nil && ended != nil:
		words, ended = reported.Error(), fmt.Errorf("%w; %w", reported, ended)
	case reported != nil:
		words, ended = reported.Error(), reported
	}
	if ended != nil {
		ended = explain(ended, words, s.listener.refused, s.gateway)
	}
	return ended
}

// retries returns how often to try an instruction again whose agent ended with an error.
func retries(ended error) int {
	switch {
	case errors.Is(ended, errLimit):
		return maxRetries
	case errors.Is(ended, errPasses):
		return fewRetries
	}
	return 0
}

// finish moves the branch from tip to the result, in one step, and adds the messages of its commits.
// Commits that people have added to it since are an error.
func (r *Repo) finish(ctx context.Context, result Result, tip string, ended error) (Result, error) {
	c := &result.Change
	if c.Messages = nil; ended != nil || c.isEmpty() {
		return result, ended
	}
	subjects, err := r.git.Run(ctx, "log", "--reverse", "--format=%s", c.Base+".."+c.Head, "--")
	if err != nil {
		return result, err
	}
	c.Messages = strings.Split(subjects, "\n")
	if tip == "" {
		tip = strings.Repeat("0", len(c.Head)) // there must be no such branch
	}
	_, err = r.git.Run(ctx, "update-ref", "refs/heads/"+c.Branch, c.Head, tip)
	return result, err
}

// begin returns the change of a job before its next instruction, and where its branch is, empty
// without one. It includes commits that people have added to its branch since.
func (r *Repo) begin(ctx context.Context, t Task) (c Change, tip string, err error) {
	if err := codehost.Retry(ctx, git.Again, func() error { return r.fetchBase(ctx) }); err != nil {
		return t.Last, "", err
	}
	c = t.Last
	c.Branch = BranchPrefix + t.Job
	if c.Base == "" {
		if c.Base, err = r.baseCommit(ctx); err != nil {
			return c, "", err
		}
		c.Head = c.Base
	}
	if at, err := r.git.Run(ctx, "for-each-ref", "--format=%(worktreepath)", "refs/heads/"+c.Branch); err != nil {
		return c, "", err
	} else if at != "" {
		return c, "", fmt.Errorf("branch %s: is checked out in %s; check out another one there", c.Branch, at)
	}
	ref := "refs/heads/" + c.Branch
	if tip, err = r.refCommit(ctx, ref); err != nil {
		return c, tip, err
	}
	// What the branch has beyond t.Last is of people, or of an instruction whose end was not written.
	switch {
	case c.isEmpty() && tip != "":
		_, err = r.git.Run(ctx, "update-ref", "-d", ref)
		tip = ""
	case t.Again && !c.isEmpty():
		_, err = r.git.Run(ctx, "update-ref", ref, c.Head)
		tip = c.Head
	case tip != "":
		c.Head = tip
	}
	if err == nil && r.remote != "" && !c.isEmpty() {
		c.Head, err = r.catchUp(ctx, c)
	}
	return c, tip, err
}

// step is a command to run in a workplace. Its name is for errors.
type step struct {
	name, command, stdin string
	env                  []string  // NAME=VALUE, besides the ordinary ones
	listener             *listener // hears the output too; nil = none
	home                 string    // empty = the job's home
	gateway              *Gateway  // nil = none
	timeout              time.Duration

	// Fields used only by jailed git: whether the tree is not to be written, what gets standard output, and $START.
	git, readOnly bool
	out           io.Writer
	start         string
}

// errOutput is a reason to end a command.
var errOutput = fmt.Errorf("printed more than %d MiB and was killed", maxOutput>>20)

// run runs a step. When it ends, so does everything it started (on Linux; elsewhere, everything in
// its session). Output is the end of standard output and error, without secrets.
func (r *Repo) run(ctx context.Context, w *workplace, s step) (output string, err error) {
	s.timeout, s.home = cmp.Or(s.timeout, r.options.Timeout), cmp.Or(s.home, w.home())
	limited, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	timer := time.AfterFunc(s.timeout, func() { stop(fmt.Errorf("took longer than %s and was killed", s.timeout)) })
	defer timer.Stop()
	out := &git.Tail{Max: keptOutput, Limit: maxOutput, Full: func() { stop(errOutput) }}
	env := append(git.Environment(git.Ordinary), s.env...)
	if s.git {
		env = append(git.Environment([]string{"PATH"}), git.Clean(w.gitDir())...)
		env = append(env, "GIT_WORK_TREE="+w.tree(), "START="+s.start, "TMPDIR="+w.tmp())
	} else if r.options.OwnHome {
		env = append(env, "HOME="+s.home, "TMPDIR="+w.tmp(), "XDG_CONFIG_HOME=", "XDG_CACHE_HOME=")
	}
	cmd := exec.CommandContext(limited, "sh", "-c", s.command)
	cmd.Dir, cmd.Env = w.tree(), append(env, "PWD="+w.tree())
	if s.gateway != nil {
		cmd.Env = append(cmd.Env, gatewayVariable+"="+s.gateway.String())
	}
	refusedHosts := func() []string { return nil }
	if r.options.Jail != nil {
		var end func()
		if refusedHosts, end, err = r.options.Jail.confine(cmd, w, s, env); err != nil {
			return "", fmt.Errorf("%s: jail: %w", s.name, err)
		}
		defer end()
	}
	killGroup := func() error {
		if err := killSession(cmd.Process.Pid); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
	shown := &redactor{to: out, secrets: r.secrets()}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(s.stdin), shown, shown
	if l := s.listener; l != nil {
		cmd.Stdout, cmd.Stderr = io.MultiWriter(shown, l.stream(false)), io.MultiWriter(shown, l.stream(true))
	}
	if s.out != nil {
		cmd.Stdout = s.out
	}
	cmd.Cancel, cmd.WaitDelay = killGroup, closeDelay
	supervise(cmd, r.lock, r.options.MaxDisk)
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("%s: %w", s.name, err)
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		w.watch(limited, r.options.MaxDisk, cmd.Process.Pid, r.options.Jail != nil, stop)
	}()
	err = cmd.Wait()
	_ = killGroup() // processes that it left running must not keep writing
	cause := context.Cause(limited)
	stop(nil)
	<-watched
	if err := w.exceeds(r.options.MaxDisk, 0, 0); err != nil { // it may have ended right after it wrote
		cause = err
	}
	_ = shown.flush() // out takes everything
	output = out.String()
	hosts := refusedHosts()
	if s.listener != nil {
		s.listener.refused, hosts = hosts, nil
	}
	switch {
	case cause == nil && (err == nil || errors.Is(err, exec.ErrWaitDelay)):
		return output, nil
	case ctx.Err() == nil && cause != nil:
		err = cause
	}
	return output, withHosts(fmt.Errorf("%s: %w", s.name, err), hosts)
}

// withEnd adds the error that an agent ended with, if any, to the one of the check.
func withEnd(failed, ended error) error {
	if ended == nil {
		return failed
	}
	return fmt.Errorf("%w; %w", failed, ended)
}

// withHosts adds refused hosts to an error.
func withHosts(err error, hosts []string) error {
	if len(hosts) == 0 {
		return err
	}
	return fmt.Errorf("%w; DOCGAUGE_SITE_AGENT_HOSTS does not allow %s", err, strings.Join(hosts, ", "))
}

// Diff returns c as a unified diff, cut after 1 MiB at the end of a line.
func (r *Repo) Diff(ctx context.Context, c Change) (string, error) {
	out := &head{max: maxDiff}
	err := r.git.Stream(ctx, out, "", "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative",
		"--unified=3", "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short",
		"--end-of-options", c.Base, c.Head, "--")
	return out.String(), err
}
