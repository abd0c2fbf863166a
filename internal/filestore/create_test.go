//go:build unix

package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

const childRoot = "FILESTORE_TEST_ROOT"

// TestCreate: only one of many writers gets the name, and keeps it.
func TestCreate(t *testing.T) {
	each(t, created)
	t.Run("without hard links", func(t *testing.T) {
		d := open(t, t.TempDir()).(*directory)
		d.link = func(file, name string) error {
			return &os.LinkError{Op: "link", Old: file, New: name, Err: syscall.EPERM}
		}
		created(t, d)
	})
	t.Run("without hard links or another single step", func(t *testing.T) {
		d := open(t, t.TempDir()).(*directory)
		d.link = claim
		created(t, d)
	})
}

func created(t *testing.T, s Store) {
	check(t, s.Prepare(t.Context()))
	const name = "table/_delta_log/0.json"
	var first atomic.Value
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			text := fmt.Sprint("entry of ", i)
			err := s.Create(t.Context(), name, []byte(text))
			if err == nil && first.Swap(text) != nil {
				t.Error("a second writer has the name too")
			}
			if err != nil && !errors.Is(err, fs.ErrExist) {
				t.Errorf("Create = %v", err)
			}
		})
	}
	writers.Wait()
	if got := contents(t, s, name); got != first.Load() {
		t.Errorf("the file holds %q, %v has the name", got, first.Load())
	}
	holds(t, s, name)
	check(t, CheckCreate(t.Context(), s))
	holds(t, s, name)
}

// TestListAfter gives only the names that follow.
func TestListAfter(t *testing.T) {
	each(t, func(t *testing.T, s Store) {
		for _, name := range []string{"log/1", "log/2", "log/3", "logs/4", "other"} {
			check(t, publish(t, s, name, name))
		}
		var got []string
		check(t, s.List(t.Context(), "log", "log/1", func(name string) { got = append(got, name) }))
		if strings.Join(got, " ") != "log/2 log/3" {
			t.Errorf("after log/1: %q", got)
		}
		check(t, s.List(t.Context(), "none", "", func(name string) { t.Errorf("%s is below none", name) }))
	})
}

// TestCreateKilled dies before the link or, without hard links, between the two
// steps: the name is free, or taken by an empty file.
func TestCreateKilled(t *testing.T) {
	for links, want := range map[string][]string{"true": nil, "false": {"log/0"}} {
		root := t.TempDir()
		child := exec.Command(os.Args[0], "-test.run=^TestCreateKilledChild$")
		child.Env = append(os.Environ(), childRoot+"="+root, "FILESTORE_TEST_LINKS="+links)
		out, err := child.CombinedOutput()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("child: %v\n%s", err, out)
		}
		s := open(t, root)
		staged, err := filepath.Glob(filepath.Join(root, StagingDir, "*"+stagedSuffix))
		if err != nil || len(staged) != 1 {
			t.Fatalf("staging holds %v, %v", staged, err)
		}
		check(t, os.Remove(staged[0]))
		holds(t, s, want...)
		check(t, s.Prepare(t.Context()))
		if err := s.Create(t.Context(), "log/0", []byte("mine")); errors.Is(err, fs.ErrExist) == (want == nil) {
			t.Errorf("links %s: Create = %v", links, err)
		}
	}
}

func TestCreateKilledChild(t *testing.T) {
	root := os.Getenv(childRoot)
	if root == "" {
		t.Skip("run by TestCreateKilled as a child process")
	}
	d := open(t, root).(*directory)
	d.link = func(_, name string) error {
		if os.Getenv("FILESTORE_TEST_LINKS") == "false" {
			check(t, os.WriteFile(name, nil, fileMode)) // as claim does
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	check(t, d.Prepare(t.Context()))
	t.Fatal(d.Create(t.Context(), "log/0", []byte("theirs")))
}

// TestCreateFaults: after an error that is not ErrExist the object may be there or not,
// and never holds anything else; a lost answer is ErrExist, or success.
func TestCreateFaults(t *testing.T) {
	const name, text = "log/0.json", "entry"
	for fault, tc := range map[string]struct {
		meddle engines.Meddler
		times  int
		want   string // of the error; "" for none, "exists" for ErrExist
		there  bool
	}{
		"answer lost":       {engines.LoseAnswer, 1, "exists", true},
		"every answer lost": {engines.LoseAnswer, -1, "cannot be reached", true},
		"conflict":          {engines.S3Says(409, "ConditionalRequestConflict", "Another"), 3, "", true},
		"conflict for ever": {engines.S3Says(409, "ConditionalRequestConflict", "Another"), -1, "another writer", false},
		"500 once":          {engines.S3Says(500, "InternalError", "We failed."), 1, "", true},
		"flipped byte":      {engines.FlipUpload, -1, "damaged on the way", false},
		"header not known": {engines.S3Says(501, "NotImplemented", "A header you provided"), -1, "If-None-Match",
			false},
		"reset in the body":   {engines.ResetMiddle, 1, "", true},
		"refused, no message": {engines.S3Page(412, "", ""), -1, "exists", false},
	} {
		t.Run(fault, func(t *testing.T) {
			s, direct, p := behindProxy(t)
			p.Set(engines.When("PUT", name, tc.times, tc.meddle))
			err := s.Create(t.Context(), name, []byte(text))
			switch {
			case tc.want == "exists":
				if !errors.Is(err, fs.ErrExist) {
					t.Errorf("Create = %v, want ErrExist", err)
				}
			case (err == nil) != (tc.want == "") || err != nil &&
				(!strings.Contains(err.Error(), tc.want) || errors.Is(err, fs.ErrExist)):
				t.Errorf("Create = %v, want %q", err, tc.want)
			case err != nil:
				engines.S3Clean(t, err.Error())
			}
			if tc.there {
				holds(t, direct, name)
				if got := contents(t, direct, name); got != text {
					t.Errorf("the object holds %q", got)
				}
			} else {
				holds(t, direct)
			}
		})
	}
}

// TestCheckCreateOfAServerThatIgnoresTheCondition reports it, and leaves nothing.
func TestCheckCreateOfAServerThatIgnoresTheCondition(t *testing.T) {
	s, direct, p := behindProxy(t)
	p.Set(engines.When("PUT", "", -1, func(_ *engines.S3Proxy, _ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("If-None-Match") != "*" {
			t.Error("the PUT has no condition")
		}
		// The signature covers the header, so the object is removed instead.
		check(t, direct.Remove(context.WithoutCancel(t.Context()),
			strings.TrimPrefix(r.URL.Path, "/"+s.address.bucket+"/"+s.address.prefix+"/")))
		return false
	}))
	err := CheckCreate(t.Context(), s)
	if err == nil || !strings.Contains(err.Error(), "ignores If-None-Match") {
		t.Fatalf("CheckCreate = %v", err)
	}
	engines.S3Clean(t, err.Error())
	holds(t, direct)
}
