package exporter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

const (
	// groups begins the path of a group.
	groups = "/metrics/job"
	// defaultJob is the group where the URL names none.
	defaultJob = "docgauge"
	// pushTimeout bounds a push, connecting included.
	pushTimeout = 30 * time.Second
	// maxAnswer is the maximum number of bytes of the gateway's answer that are read.
	maxAnswer = 64 << 10
)

// Push replaces the metrics of docgauge in a group of the Pushgateway at address (see [ParsePushURL]) with the
// metrics of s: families without a series in s go away too, except the last success, which only a success replaces.
// Other families in the group stay. An error names the host, never the credentials.
func Push(ctx context.Context, address string, s view.Snapshot) error {
	group, err := parsePushURL(address)
	if err != nil {
		return err
	}
	families := gather(&s)
	body, err := encode(append(families, empty(families)...), expfmt.FmtProtoDelim, true)
	if err != nil {
		return fmt.Errorf("push to %s: %w", group.Host, err)
	}
	if err := send(ctx, http.MethodPost, group, body); err != nil {
		return fmt.Errorf("push to %s: %w", group.Host, err)
	}
	return nil
}

// CheckPushgateway asks the Pushgateway at address (see [ParsePushURL]) whether it is ready, and pushes nothing.
// [Push] describes the errors.
func CheckPushgateway(ctx context.Context, address string) error {
	group, err := parsePushURL(address)
	if err != nil {
		return err
	}
	base, _, _ := strings.Cut(group.EscapedPath(), groups)
	ready := url.URL{Scheme: group.Scheme, User: group.User, Host: group.Host}
	if err := send(ctx, http.MethodGet, ready.JoinPath(base, "/-/ready"), nil); err != nil {
		return fmt.Errorf("pushgateway %s: %w", group.Host, err)
	}
	return nil
}

// empty returns a family without series for each metric that is not among
// families. A gateway keeps a family until it is pushed again: without these it would
// show a backlog, or the pages of a project, long after they are gone.
func empty(families []*dto.MetricFamily) []*dto.MetricFamily {
	there := map[string]bool{prefix + "export_last_success_timestamp_seconds": true}
	for _, f := range families {
		there[f.GetName()] = true
	}
	var all []*dto.MetricFamily
	for _, m := range Metrics() {
		if !there[m.Name] {
			all = append(all, m.gather(nil))
		}
	}
	return all
}

// send sends body; credentials in the URL become basic authentication.
func send(ctx context.Context, method string, group *url.URL, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, method, group.String(), bytes.NewReader(body))
	if err != nil {
		return errors.New("no request can be made of the URL")
	}
	request.Header.Set("Content-Type", string(expfmt.FmtProtoDelim))
	if user := group.User; user != nil {
		password, _ := user.Password()
		request.SetBasicAuth(user.Username(), password)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	client := http.Client{
		Transport:     transport,
		Timeout:       pushTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		// A url.Error would print the URL with its credentials.
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return fmt.Errorf("%w: is it running and reachable?", err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 == 2 {
		return nil
	}
	said, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	answer := Quote(request, string(said))
	if answer != "" {
		answer += ": "
	}
	return fmt.Errorf("HTTP %d %s: %s%s", response.StatusCode, http.StatusText(response.StatusCode), answer,
		pushRemedy(response.StatusCode))
}

func pushRemedy(status int) string {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return "it must accept the credentials; write them as user:password@ before the host"
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		return "the URL must lead to a Pushgateway; check its path"
	case status/100 == 3:
		return "redirects are not followed; name the final address"
	case status/100 == 5:
		return "the gateway, or a proxy in front of it, fails; see its log"
	}
	return "the gateway must accept the group; see its log, and delete the group if it has old metrics of other types"
}

// ParsePushURL checks the address of a Pushgateway:
// http or https, credentials for basic authentication where it needs them, and a
// host, as in "http://gw:9091", which pushes to the group job="docgauge". A path
// that continues with "/metrics/job/NAME" and any number of "/LABEL/VALUE" chooses
// the group. An error never holds the credentials.
func ParsePushURL(address string) error {
	_, err := parsePushURL(address)
	return err
}

// parsePushURL returns the URL of the group.
func parsePushURL(address string) (*url.URL, error) {
	u, err := analytics.ParseServiceURL(address, analytics.URLRules{Example: "http://HOST:9091", PlainHTTP: true})
	if err != nil {
		return nil, fmt.Errorf("the Pushgateway's URL: %w", err)
	}
	base, group, chosen := strings.Cut(strings.TrimRight(u.EscapedPath(), "/"), groups)
	if !chosen {
		return u.JoinPath(groups, defaultJob), nil
	}
	if err := checkGroup(group); err != nil {
		return nil, fmt.Errorf("the Pushgateway's URL (host %s): %w; write it as %s/NAME/LABEL/VALUE", u.Host, err,
			base+groups)
	}
	return u, nil
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// checkGroup checks what follows /metrics/job: "/NAME/LABEL/VALUE/...", or
// "@base64/…" as the Pushgateway has it for values with a slash.
func checkGroup(path string) error {
	parts := strings.Split("job"+path, "/")
	if len(parts)%2 != 0 || slices.Contains(parts, "") {
		return errors.New("the path must name a job, and each label must have a value")
	}
	for i := 0; i < len(parts); i += 2 {
		name, _ := strings.CutSuffix(parts[i], "@base64")
		if !labelName.MatchString(name) || i > 0 && name == "job" || name == "le" {
			return fmt.Errorf("%q cannot be a label of the group", name)
		}
		if slices.ContainsFunc(Metrics(), func(m Metric) bool { return slices.Contains(m.Labels, name) }) {
			return fmt.Errorf("%q cannot be a label of the group, metrics have it", name)
		}
	}
	return nil
}
