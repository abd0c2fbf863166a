package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/query"
)

// add adds a tool. Its schemas come from the types.
func add[In, Out any](
	s *sdk.Server, a *assistant, name, title string, hints sdk.ToolAnnotations, about string,
	answer func(context.Context, In) (Out, error),
) {
	takes, gives := schemaOf[In](), schemaOf[Out]()
	hints.Title = title
	t := &sdk.Tool{Name: name, Title: title, Annotations: &hints, Description: about, InputSchema: takes.Schema(),
		OutputSchema: gives.Schema()}
	s.AddTool(t, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		began := time.Now()
		data, err := call(ctx, a, takes, req.Params.Arguments, answer)
		if err == nil {
			err = valid(gives, data)
		}
		a.Log.Debug("question answered", "tool", name, "took_seconds", clock.Seconds(time.Since(began)), "error", err)
		if err != nil {
			problem := text(strings.Join(strings.Fields(err.Error()), " "), maxProblem)
			content := []sdk.Content{&sdk.TextContent{Text: name + ": " + problem}}
			return &sdk.CallToolResult{IsError: true, Content: content}, nil
		}
		content := []sdk.Content{&sdk.TextContent{Text: string(data)}}
		return &sdk.CallToolResult{StructuredContent: json.RawMessage(data), Content: content}, nil
	})
}

// schemaOf returns the schema of a type, ready to check values.
func schemaOf[T any]() *jsonschema.Resolved {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: schemas})
	if err != nil {
		panic(err) // a mistake in the types, which each test meets
	}
	ready, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		panic(err) // likewise
	}
	return ready
}

func reportNames() (names []any) {
	for _, r := range analytics.Reports {
		names = append(names, r.String())
	}
	return names
}

func agentOrders() (all []any) {
	for _, o := range query.AgentOrders {
		all = append(all, string(o))
	}
	return all
}

// schemas are the schemas of the types that do not say enough by themselves.
var schemas = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[analytics.Date](): {Type: "string", Format: "date"},
	reflect.TypeFor[time.Time]():      {Type: "string", Format: "date-time"},
	reflect.TypeFor[count](): {
		Type: "integer", Minimum: jsonschema.Ptr(1.0), Maximum: jsonschema.Ptr(float64(mostListed)),
		Default: json.RawMessage(`20`),
	},
	reflect.TypeFor[list](): {
		Type: "string", Enum: []any{"top", "rising", "falling"}, Default: json.RawMessage(`"top"`),
		Description: "which pages: the most read, or those that rose or fell most since the window compared with",
	},
	reflect.TypeFor[analytics.Report](): {Type: "string", Enum: reportNames()},
	reflect.TypeFor[query.RankedRow]():  {Type: "object"},
	reflect.TypeFor[agentList](): {
		Type: "string", Enum: []any{"agents", "pages", "misses"},
		Description: "agents of the site, pages of one agent, or paths that are not there; default: agents, or pages " +
			"if an agent is named",
	},
	reflect.TypeFor[agentOrder](): {
		Type: "string", Enum: agentOrders(),
		Description: "what the list is ranked by; default: readers, and requests for misses",
	},
	reflect.TypeFor[audience](): {
		Type: "string", Enum: []any{"total", "human", "ai"}, Default: json.RawMessage(`"total"`),
		Description: "whose visitors are ranked",
	},
}

// mostListed is the longest list of an answer.
const mostListed = 100

// The types of arguments.
type (
	count    int
	audience string
	list     string

	agentList  string
	agentOrder string
)

// call reads the arguments and answers, within the limits of time and places.
func call[In, Out any](
	ctx context.Context, a *assistant, takes *jsonschema.Resolved, arguments json.RawMessage,
	answer func(context.Context, In) (Out, error),
) (data []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			a.Log.Error("answer panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			err = errors.New("docgauge has a fault here: its log has the details, please report them; " +
				"other tools still work")
		}
	}()
	late := fmt.Errorf("no answer within %s: ask for fewer windows or pages, or again later", answerTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, late)
	defer cancel()
	select {
	case a.places <- struct{}{}:
		defer func() { <-a.places }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var in In
	if err := read(takes, arguments, &in); err != nil {
		return nil, err
	}
	out, err := answer(ctx, in)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return encode(out)
}

// read checks arguments, sets those left out to their defaults, and decodes them.
func read(takes *jsonschema.Resolved, arguments json.RawMessage, in any) error {
	given := map[string]any{}
	if len(arguments) > 0 {
		if err := json.Unmarshal(arguments, &given); err != nil {
			return errors.New("arguments: want a JSON object")
		}
	}
	if given == nil { // some clients send null for none
		given = map[string]any{}
	}
	known := takes.Schema().Properties
	for name := range given {
		if known[name] == nil {
			names := strings.Join(slices.Sorted(maps.Keys(known)), ", ")
			return fmt.Errorf("argument %.40q is not known; there are %s", name, names)
		}
	}
	// Some clients send every argument, with null for those left out.
	maps.DeleteFunc(given, func(_ string, value any) bool { return value == nil })
	if err := takes.ApplyDefaults(&given); err != nil {
		return err
	}
	if err := takes.Validate(given); err != nil {
		return fmt.Errorf("arguments: %w; the input schema of the tool says what they can be", err)
	}
	data, err := json.Marshal(given)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, in); err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	return nil
}

// encode writes an answer as JSON in which each text is safe to show.
func encode(out any) ([]byte, error) {
	data, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(safe(v))
}

// safe makes each text of a decoded JSON value safe.
func safe(v any) any {
	switch v := v.(type) {
	case string:
		return text(v, maxText)
	case []any:
		for i := range v {
			v[i] = safe(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			out[text(name, maxText)] = safe(value)
		}
		return out
	}
	return v
}

const (
	maxText    = 500  // bytes of a text in an answer
	maxProblem = 1000 // bytes of an error
)

// text cuts a text, and makes visible what cannot be seen: characters that control
// terminals, hide words from people or turn their order around.
func text(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	cut := len(s) > most
	if cut {
		for s = s[:most]; !utf8.ValidString(s); {
			s = s[:len(s)-1] // it ended inside a character
		}
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsGraphic(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	if cut {
		b.WriteString("…")
	}
	return b.String()
}

// valid checks an answer by its schema.
func valid(gives *jsonschema.Resolved, data []byte) error {
	var v any
	err := json.Unmarshal(data, &v)
	if err == nil {
		err = gives.Validate(v)
	}
	if err != nil {
		return fmt.Errorf("docgauge has a fault here, please report it: the answer is not of its schema: %w", err)
	}
	return nil
}
