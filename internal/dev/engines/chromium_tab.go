package engines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Tab is one open page.
type Tab struct {
	pipe            *devtools
	target, session string
	loaded          chan struct{} // holds one element once the page and all it asks for are here

	mu       sync.Mutex
	console  []string
	requests []string
}

// Open opens an address in a new tab and returns when everything the page asks
// for is loaded. A status that is not 2xx is no error.
func (c *Chromium) Open(ctx context.Context, url string, view View) (*Tab, error) {
	t, err := c.blank(ctx)
	if err != nil {
		return nil, fmt.Errorf("open a tab: %w", err)
	}
	if err := t.visit(ctx, url, view); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", url, err), t.Close(ctx))
	}
	return t, nil
}

func (c *Chromium) blank(ctx context.Context) (*Tab, error) {
	t := &Tab{pipe: c.pipe, loaded: make(chan struct{}, 1)}
	var made struct{ TargetID string }
	if err := c.pipe.call(ctx, "", "Target.createTarget", with{"url": "about:blank"}, &made); err != nil {
		return nil, err
	}
	t.target = made.TargetID
	var attached struct{ SessionID string }
	err := c.pipe.call(ctx, "", "Target.attachToTarget", with{"targetId": t.target, "flatten": true}, &attached)
	t.session = attached.SessionID
	return t, err
}

// with are the parameters of a command.
type with map[string]any

func (t *Tab) visit(ctx context.Context, url string, view View) error {
	scheme := view.Scheme
	if scheme == "" {
		scheme = "light"
	}
	features := []with{{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}}
	for _, step := range []struct {
		method string
		params with
	}{
		{"Page.enable", nil},
		{"Emulation.setDeviceMetricsOverride", with{"width": view.Width, "height": view.Height, "deviceScaleFactor": max(view.Scale, 1), "mobile": false}},
		{"Emulation.setEmulatedMedia", with{"media": view.Media, "features": features}},
	} {
		if err := t.call(ctx, step.method, step.params, nil); err != nil {
			return err
		}
	}
	t.pipe.listen(t.session, t.event) // only now, so that no event is of the blank page
	for _, domain := range []string{"Runtime", "Log", "Network"} {
		if err := t.call(ctx, domain+".enable", nil, nil); err != nil {
			return err
		}
	}
	return t.navigate(ctx, url)
}

func (t *Tab) navigate(ctx context.Context, url string) error {
	var result struct{ ErrorText string }
	if err := t.call(ctx, "Page.navigate", with{"url": url}, &result); err != nil {
		return err
	}
	if result.ErrorText != "" {
		return errors.New(result.ErrorText)
	}
	select {
	case <-t.loaded:
		return nil
	case <-t.pipe.closed:
		return t.pipe.closing
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *Tab) call(ctx context.Context, method string, params with, result any) error {
	return t.pipe.call(ctx, t.session, method, params, result)
}

// Console returns everything the browser said about the page so far: what
// scripts log, exceptions, and its own messages, such as those about blocked
// and missing resources.
func (t *Tab) Console() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.console)
}

// Requests returns the addresses that the page asked for, the page's first.
func (t *Tab) Requests() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.requests)
}

// DOM returns the document as the browser understood it, as HTML.
func (t *Tab) DOM(ctx context.Context) (html string, err error) {
	return html, t.Eval(ctx, "document.documentElement.outerHTML", &html)
}

// Eval decodes the value of an expression, which goes through JSON, into result
// unless that is nil.
func (t *Tab) Eval(ctx context.Context, expression string, result any) error {
	var answer struct {
		Result    struct{ Value json.RawMessage }
		Exception *struct{ Text string } `json:"exceptionDetails"`
	}
	err := t.call(ctx, "Runtime.evaluate", with{"expression": expression, "returnByValue": true}, &answer)
	switch {
	case err != nil:
		return err
	case answer.Exception != nil:
		return fmt.Errorf("%s: %s", expression, answer.Exception.Text)
	case result == nil || len(answer.Result.Value) == 0:
		return nil
	}
	return json.Unmarshal(answer.Result.Value, result)
}

// Screenshot returns a PNG of the whole page, as wide as the viewport.
func (t *Tab) Screenshot(ctx context.Context) ([]byte, error) {
	var layout struct {
		Size struct{ Width, Height float64 } `json:"cssContentSize"`
	}
	if err := t.call(ctx, "Page.getLayoutMetrics", nil, &layout); err != nil {
		return nil, err
	}
	clip := with{"x": 0, "y": 0, "width": layout.Size.Width, "height": layout.Size.Height, "scale": 1}
	var shot struct{ Data []byte }
	err := t.call(ctx, "Page.captureScreenshot", with{"format": "png", "captureBeyondViewport": true, "clip": clip}, &shot)
	return shot.Data, err
}

// Close closes the tab.
func (t *Tab) Close(ctx context.Context) error {
	return t.pipe.call(ctx, "", "Target.closeTarget", with{"targetId": t.target}, nil)
}

// Drag moves the pointer to from, presses the button, moves to to and lets it go.
// Where the two are the same it clicks. Places are x, y in the viewport.
func (t *Tab) Drag(ctx context.Context, from, to [2]float64) error {
	for _, step := range []struct {
		kind string
		at   [2]float64
	}{{"mouseMoved", from}, {"mousePressed", from}, {"mouseMoved", to}, {"mouseReleased", to}} {
		if err := t.mouse(ctx, step.kind, step.at); err != nil {
			return err
		}
	}
	return nil
}

// Point moves the pointer to a place in the viewport.
func (t *Tab) Point(ctx context.Context, at [2]float64) error { return t.mouse(ctx, "mouseMoved", at) }

func (t *Tab) mouse(ctx context.Context, kind string, at [2]float64) error {
	params := with{"type": kind, "x": at[0], "y": at[1], "pointerType": "mouse"}
	if kind != "mouseMoved" {
		params["button"], params["clickCount"] = "left", 1
	}
	return t.call(ctx, "Input.dispatchMouseEvent", params, nil)
}

// Press presses a key by its name, such as ArrowLeft.
func (t *Tab) Press(ctx context.Context, key string) error {
	for _, kind := range []string{"keyDown", "keyUp"} {
		if err := t.call(ctx, "Input.dispatchKeyEvent", with{"type": kind, "key": key}, nil); err != nil {
			return err
		}
	}
	return nil
}
