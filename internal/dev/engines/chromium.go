package engines

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Chromium is a running headless browser. It resolves no name, so it reaches
// loopback only.
type Chromium struct {
	child process
	pipe  *devtools
}

// View is what a page is opened with.
type View struct {
	Width, Height int    // of the viewport, in CSS pixels
	Scale         int    // device pixels per CSS pixel; 0 is 1
	Scheme        string // what prefers-color-scheme says: "light", "dark"; empty is light
	Media         string // "print", or empty for the screen
}

// chromiumFlags keep the browser from asking anybody anything. A renderer may
// not find room in the /dev/shm of a container.
var chromiumFlags = []string{
	"--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage",
	"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--no-proxy-server", "--no-first-run", "--no-default-browser-check",
	"--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync",
	"--disable-extensions", "--disable-breakpad", "--disable-crash-reporter", "--no-pings", "--password-store=basic",
	"--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider", "--hide-scrollbars", "--log-level=3",
}

// StartChromium starts a browser with a fresh profile in dir, and waits until
// it answers.
func StartChromium(dir string) (*Chromium, error) {
	binary, err := program("chromium")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	argv := append([]string{binary, "--user-data-dir=" + filepath.Join(dir, "profile")}, chromiumFlags...)
	if os.Geteuid() == 0 {
		argv = append(argv, "--no-sandbox") // the sandbox refuses to run as root
	}
	c := &Chromium{child: process{name: "chromium", argv: append(argv, "about:blank"), dir: dir}}
	c.child.env = []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_CACHE_HOME=" + dir}
	if err := c.start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := c.pipe.call(ctx, "", "Browser.getVersion", nil, nil); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, stopped(c))
	}
	return c, nil
}

// stopped kills a browser and returns the end of its log.
func stopped(c *Chromium) string {
	if err := c.Kill(); err != nil {
		return err.Error()
	}
	return c.Tail()
}

// start is [process.start] with the two pipes that the browser takes its
// commands from (descriptor 3) and answers on (descriptor 4).
func (c *Chromium) start() error {
	out, err := os.Create(c.child.output())
	if err != nil {
		return err
	}
	defer out.Close()
	commands, toBrowser, err := os.Pipe()
	if err != nil {
		return err
	}
	defer commands.Close()
	fromBrowser, answers, err := os.Pipe()
	if err != nil {
		toBrowser.Close()
		return err
	}
	defer answers.Close()
	cmd := exec.Command(c.child.argv[0], c.child.argv[1:]...)
	cmd.Dir, cmd.Env = c.child.dir, append(os.Environ(), c.child.env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.ExtraFiles = []*os.File{commands, answers}
	cmd.SysProcAttr = attributes()
	if err := spawn(cmd); err != nil {
		toBrowser.Close()
		fromBrowser.Close()
		return fmt.Errorf("start chromium: %w", err)
	}
	c.child.cmd, c.child.done = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed in the end, so how it ended says nothing
		close(c.child.done)
	}()
	c.pipe = newDevtools(toBrowser, fromBrowser)
	return nil
}

// Kill ends the browser and all its processes; the profile stays in its
// directory. To kill one that is gone does nothing.
func (c *Chromium) Kill() error { return c.child.Kill() }

// Tail returns the end of the browser's output, for messages.
func (c *Chromium) Tail() string { return c.child.Tail() }

// RunChromium starts a browser for one test, as [StartChromium] does.
func RunChromium(t testing.TB) *Chromium {
	t.Helper()
	browser, err := StartChromium(t.TempDir())
	Need(t, err)
	cleanup(t, browser)
	return browser
}
