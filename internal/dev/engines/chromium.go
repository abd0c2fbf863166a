package engines

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Chromium is a running headless browser. It resolves no host name, so it
// reaches loopback and files only.
type Chromium struct {
	// Stop ends the browser with all its processes and removes its profile.
	Stop context.CancelFunc

	ctx context.Context // chromedp keeps the browser in its context
}

// View says how a page is displayed.
type View struct {
	Width, Height int    // of the viewport, in CSS pixels
	Scale         int    // device pixels per CSS pixel; 0 is 1
	Scheme        string // value of prefers-color-scheme: "light" or "dark"; empty is light
	Media         string // "print", or empty for the screen
	NoScript      bool   // scripts of the page do not run
}

// startChromium starts a browser with a new profile and dir as its home, and
// waits until it answers.
func startChromium(dir string) (*Chromium, error) {
	binary, err := program("chromium")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless, chromedp.ExecPath(binary),
		chromedp.WSURLReadTimeout(startTimeout), chromedp.Env("HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_CACHE_HOME="+dir),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.Flag("password-store", "basic"),
		chromedp.Flag("disable-features", "Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider"),
	}
	for _, name := range []string{
		"disable-gpu", "disable-dev-shm-usage", "no-proxy-server", "disable-background-networking",
		"disable-component-update", "disable-default-apps", "disable-sync", "disable-extensions",
		"disable-breakpad", "disable-crash-reporter", "no-pings", "hide-scrollbars",
	} {
		options = append(options, chromedp.Flag(name, true))
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(allocator)
	c := &Chromium{ctx: ctx, Stop: func() { stop(); stopAllocator() }}
	if err := chromedp.Do(ctx); err != nil {
		c.Stop()
		return nil, fmt.Errorf("start chromium: %w", err)
	}
	return c, nil
}

// shared is the browser of all tests of a package whose TestMain calls
// [ShareChromium].
var shared struct {
	sync.Mutex
	dir     string // its home; empty where tests do not share
	browser *Chromium
}

// ShareChromium runs the tests of a package and returns the exit code. All tests
// that call [RunChromium] share one browser, which starts with the first of
// them and ends after the last.
func ShareChromium(m *testing.M) int {
	dir, err := os.MkdirTemp("", "docgauge-browser-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	shared.dir = dir
	defer func() {
		if shared.browser != nil {
			shared.browser.Stop()
		}
	}()
	return m.Run()
}

// RunChromium returns a browser for one test: the package's shared browser, see
// [ShareChromium], or else a browser that ends with the test.
func RunChromium(t testing.TB) *Chromium {
	t.Helper()
	if shared.dir == "" {
		browser, err := startChromium(t.TempDir())
		Need(t, err)
		t.Cleanup(browser.Stop)
		return browser
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.browser == nil {
		browser, err := startChromium(shared.dir)
		Need(t, err)
		shared.browser = browser
	}
	return shared.browser
}

// Tab is one open page.
type Tab struct {
	ctx context.Context // chromedp keeps the tab in its context

	mu       sync.Mutex
	console  []string
	requests []string
}

// Open opens an address in a new tab, which is closed when ctx ends, and
// returns when everything the page requests is loaded. It accepts every HTTP
// status. Now and then a browser never loads a page: then another tab tries.
func (c *Chromium) Open(ctx context.Context, url string, view View) (*Tab, error) {
	t, err := c.open(ctx, url, view)
	if errors.Is(err, errTooLong) {
		t, err = c.open(ctx, url, view)
	}
	return t, err
}

func (c *Chromium) open(ctx context.Context, url string, view View) (*Tab, error) {
	t := new(Tab)
	tab, closeTab := chromedp.NewContext(c.ctx, chromedp.WithListener(t.record), chromedp.WithNewWindow(false))
	t.ctx = tab
	context.AfterFunc(ctx, closeTab)
	media := emulation.SetEmulatedMediaParams{Media: view.Media, Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: cmp.Or(view.Scheme, "light")},
		{Name: "prefers-reduced-motion", Value: "reduce"},
	}}
	emulateMedia := chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media)
		return err
	})
	scripts := chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: view.NoScript})
		return err
	})
	viewport := chromedp.EmulateViewport(int64(view.Width), int64(view.Height),
		chromedp.EmulateScale(float64(max(view.Scale, 1))))
	err := chromedp.Do(tab) // the tab lives as long as the context of what it does first
	if err == nil {
		_, err = do(ctx, t, chromedp.Steps(viewport, emulateMedia, scripts, chromedp.Navigate(url)))
	}
	if err != nil {
		closeTab()
		return nil, fmt.Errorf("open %s: %w", url, err)
	}
	return t, nil
}

// record keeps what [Tab.Console] and [Tab.Requests] return. It is called with
// each event in the order of their arrival.
func (t *Tab) record(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	say := func(format string, args ...any) { t.console = append(t.console, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		t.requests = append(t.requests, e.Request.URL)
	case *runtime.EventConsoleAPICalled:
		var words []string
		for _, arg := range e.Args {
			words = append(words, cmp.Or(strings.Trim(string(arg.Value), `"`), arg.Description))
		}
		say("console.%s: %s", e.Type, strings.Join(words, " "))
	case *runtime.EventExceptionThrown:
		details := e.ExceptionDetails
		if details.Exception != nil {
			details.Text = cmp.Or(details.Exception.Description, details.Text)
		}
		say("exception: %s", details.Text)
	case *log.EventEntryAdded:
		say("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
	}
}

// Console returns everything the browser reported about the page so far: what
// scripts log, exceptions, and its own messages, such as those about blocked
// and missing resources.
func (t *Tab) Console() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.console)
}

// Requests returns the addresses that were requested, the page's own first.
func (t *Tab) Requests() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.requests)
}

// Eval decodes the value of a JavaScript expression, or of its promise, which must be
// valid JSON, into result unless that is nil.
func (t *Tab) Eval(ctx context.Context, expression string, result any) error {
	value, err := do(ctx, t, chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise))
	if err != nil || result == nil || len(value) == 0 {
		return err
	}
	return json.Unmarshal(value, result)
}

// Screenshot returns a PNG of the whole page, as wide as the viewport.
func (t *Tab) Screenshot(ctx context.Context) ([]byte, error) {
	return do(ctx, t, chromedp.FullScreenshot(100))
}

// Drag moves the pointer to from, presses the button, moves to to and releases
// it; where both are the same it clicks. Places are x, y in the viewport.
func (t *Tab) Drag(ctx context.Context, from, to [2]float64) error {
	_, err := do(ctx, t, chromedp.Steps(
		chromedp.MouseEvent(chromedp.MouseMoved, from[0], from[1]),
		chromedp.MouseEvent(chromedp.MousePressed, from[0], from[1], chromedp.ButtonLeft, chromedp.ClickCount(1)),
		chromedp.MouseEvent(chromedp.MouseMoved, to[0], to[1], chromedp.ButtonLeft),
		chromedp.MouseEvent(chromedp.MouseReleased, to[0], to[1], chromedp.ButtonLeft, chromedp.ClickCount(1))))
	return err
}

// Point moves the pointer to a place in the viewport.
func (t *Tab) Point(ctx context.Context, at [2]float64) error {
	_, err := do(ctx, t, chromedp.MouseEvent(chromedp.MouseMoved, at[0], at[1]))
	return err
}

// keys are those whose effect is the browser's own, with what it asks for.
var keys = map[string]input.DispatchKeyEventParams{
	"Enter": {WindowsVirtualKeyCode: 13, Text: "\r"}, "Tab": {WindowsVirtualKeyCode: 9},
}

// Press presses and releases a key, given by its name, such as ArrowLeft.
func (t *Tab) Press(ctx context.Context, key string) error {
	return t.input(ctx, func(ctx context.Context) error {
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown,
			input.DispatchKeyEventTypeKeyUp} {
			event := keys[key]
			event.Type, event.Key = kind, key
			if _, err := chromedp.Call(ctx, input.DispatchKeyEvent, event); err != nil {
				return err
			}
		}
		return nil
	})
}

// Type writes a text where the focus is.
func (t *Tab) Type(ctx context.Context, text string) error {
	return t.input(ctx, func(ctx context.Context) error {
		_, err := chromedp.Call(ctx, input.InsertText, input.InsertTextParams{Text: text})
		return err
	})
}

func (t *Tab) input(ctx context.Context, send func(context.Context) error) error {
	_, err := do(ctx, t, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error { return send(ctx) }))
	return err
}

// errTooLong says that a browser did not do something in time.
var errTooLong = errors.New("the browser takes too long")

// do runs an action in a tab until ctx ends, or for as long as an engine may take to start.
func do[T any](ctx context.Context, t *Tab, action chromedp.Action[T]) (T, error) {
	within, cancel := context.WithTimeoutCause(t.ctx, startTimeout, errTooLong)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	value, err := chromedp.Run(within, action)
	if err != nil && errors.Is(context.Cause(within), errTooLong) {
		err = fmt.Errorf("%w: %w", errTooLong, err)
	}
	return value, err
}

// Axe returns what axe-core finds in the page: violations of WCAG 2.2 AA and of axe-core's best practices, each with
// its rule, its elements and why. Without axe-core it is a [Missing] error.
func (t *Tab) Axe(ctx context.Context) (violations []string, err error) {
	script, err := os.ReadFile(filepath.Join(Tools(), "node", "node_modules", "axe-core", "axe.min.js"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Missing{Engine: "axe-core", Install: installer}
	}
	if err != nil {
		return nil, err
	}
	if err := t.Eval(ctx, string(script)+";0", nil); err != nil {
		return nil, fmt.Errorf("load axe-core: %w", err)
	}
	return violations, t.Eval(ctx, axeRun, &violations)
}

// The expressions below are for [Tab.Eval]. Each returns a list of texts that
// name the problems of a page. The functions in the files get selectors.
var (
	//go:embed files/toowide.js
	tooWide string
	//go:embed files/hardtoread.js
	hardToRead string
	//go:embed files/oneachother.js
	onEachOther string
	//go:embed files/toosmall.js
	tooSmall string
	//go:embed files/axe.js
	axeRun string
)

// TooWide finds elements that extend to the right of their box, one of boxes,
// or of the viewport, and are not in exempt. Both are selectors.
func TooWide(exempt, boxes string) string { return fmt.Sprintf("(%s)(%q, %q)", tooWide, exempt, boxes) }

// HardToRead finds texts with less contrast than WCAG AA requires.
var HardToRead = fmt.Sprintf("(%s)()", hardToRead)

// OnEachOther finds pairs of overlapping texts in one box. Boxes is a selector.
func OnEachOther(boxes string) string { return fmt.Sprintf("(%s)(%q)", onEachOther, boxes) }
