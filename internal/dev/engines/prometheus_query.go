package engines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Sample is one element of a query's result. Labels holds the metric's name
// under __name__, where the result has one; a scalar has no labels.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Query evaluates a PromQL expression at one time, in milliseconds; the zero
// time is now. The result must be a vector or a scalar, and its samples come in
// the server's order. An error carries the server's message.
func (p *Prometheus) Query(ctx context.Context, expr string, at time.Time) ([]Sample, error) {
	parameters := url.Values{"query": {expr}}
	if !at.IsZero() {
		parameters.Set("time", strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64))
	}
	var answer struct {
		ResultType string
		Result     json.RawMessage
	}
	if err := p.get(ctx, "/api/v1/query", parameters, &answer); err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	samples, err := decodeResult(answer.ResultType, answer.Result)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	return samples, nil
}

func decodeResult(kind string, result json.RawMessage) ([]Sample, error) {
	switch kind {
	case "vector":
		var vector []struct {
			Metric map[string]string
			Value  point
		}
		err := json.Unmarshal(result, &vector)
		var samples []Sample
		for _, v := range vector {
			samples = append(samples, Sample{v.Metric, float64(v.Value)})
		}
		return samples, err
	case "scalar":
		var value point
		err := json.Unmarshal(result, &value)
		return []Sample{{Value: float64(value)}}, err
	}
	return nil, fmt.Errorf("its result is a %s, must be a vector or scalar", kind)
}

// point is the value of a sample, which is written as [time, "value"]. A native
// histogram has none and stays 0.
type point float64

func (p *point) UnmarshalJSON(text []byte) error {
	var at float64
	var value string
	if err := json.Unmarshal(text, &[2]any{&at, &value}); err != nil {
		return err
	}
	f, err := strconv.ParseFloat(value, 64)
	*p = point(f)
	return err
}

// Target is how the last scrape of a target went.
type Target struct {
	Job       string
	URL       string // what is scraped
	Health    string // up, down or unknown (not scraped yet)
	LastError string // empty where it went well
}

// Targets tells how the scrapes go.
func (p *Prometheus) Targets(ctx context.Context) ([]Target, error) {
	var answer struct {
		ActiveTargets []struct {
			Labels                       map[string]string
			ScrapeURL, Health, LastError string
		}
	}
	if err := p.get(ctx, "/api/v1/targets", nil, &answer); err != nil {
		return nil, fmt.Errorf("targets: %w", err)
	}
	var targets []Target
	for _, t := range answer.ActiveTargets {
		targets = append(targets, Target{t.Labels["job"], t.ScrapeURL, t.Health, t.LastError})
	}
	return targets, nil
}

func (p *Prometheus) get(ctx context.Context, path string, parameters url.Values, data any) error {
	return getJSON(ctx, p.URL+path+"?"+parameters.Encode(), data)
}

// getJSON reads an answer of the API that Prometheus and Pushgateway share.
func getJSON(ctx context.Context, address string, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	status, body, err := send(request)
	if err != nil {
		return err
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return fmt.Errorf("status %d: %w", status, err)
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return nil
}
