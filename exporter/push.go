package exporter

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

const (
	// pushTimeout bounds a push, connecting included.
	pushTimeout = 30 * time.Second
	// maxAnswer is how much of the gateway's answer an error quotes, in bytes.
	maxAnswer = 300
)

// Push replaces the metrics of docgauge in a group of the Pushgateway at address,
// which is as for [ParsePushURL], by those of s: families that s has no series of
// go away too, except the last success, which only a success replaces. Families of
// others in the group stay. An error names the host, never the credentials.
func Push(ctx context.Context, address string, s Snapshot) error {
	group, err := parsePushURL(address)
	if err != nil {
		return err
	}
	families, err := gather(&s)
	if err != nil {
		return fmt.Errorf("push to %s: %w", group.Host, err)
	}
	body, err := encode(append(families, empty(families)...), expfmt.FmtProtoDelim, true)
	if err != nil {
		return fmt.Errorf("push to %s: %w", group.Host, err)
	}
	if err := send(ctx, http.MethodPost, group, body); err != nil {
		return fmt.Errorf("push to %s: %w", group.Host, err)
	}
	return nil
}

// empty returns a family without series for each metric that is not among
// families. A gateway keeps what was pushed until the family comes again: without
// these it would tell of a backlog, or of the pages of a project, long gone.
func empty(families []*dto.MetricFamily) []*dto.MetricFamily {
	there := map[string]bool{ExportLastSuccess: true}
	for _, f := range families {
		there[f.GetName()] = true
	}
	var all []*dto.MetricFamily
	for _, m := range Metrics() {
		if !there[m.Name] {
			kind := dto.MetricType(dto.MetricType_value[strings.ToUpper(m.Type)])
			all = append(all, &dto.MetricFamily{Name: &m.Name, Help: &m.Help, Type: &kind})
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
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	client := http.Client{
		Transport:     transport,
		Timeout:       pushTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("%w: it must be reachable and running", cause(err))
	}
	defer response.Body.Close()
	if response.StatusCode/100 == 2 {
		return nil
	}
	said, _ := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return refusal(response.StatusCode, redact(group, string(said)))
}

// cause returns what is below a url.Error, which would print the URL.
func cause(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// refusal describes an answer that is not a success.
func refusal(status int, said string) error {
	text := fmt.Sprintf("HTTP %d %s", status, http.StatusText(status))
	if said = strings.Join(strings.Fields(strings.ToValidUTF8(said, "\uFFFD")), " "); said != "" {
		text += ": " + said
	}
	return errors.New(text + ": " + pushRemedy(status))
}

func pushRemedy(status int) string {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return "it must accept the credentials; write them as user:password@ before the host"
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		return "the URL must be that of a Pushgateway; check its path"
	case status/100 == 3:
		return "redirects are not followed; name the final address"
	case status/100 == 5:
		return "the gateway, or a proxy before it, must be well; see its log"
	}
	return "the gateway must accept the group; see its log, and delete the group if it has old metrics of other types"
}

// redact takes the credentials of u out of text.
func redact(u *url.URL, text string) string {
	password, _ := u.User.Password()
	if password == "" {
		return text
	}
	both := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
	return strings.NewReplacer(both, "…", password, "…", url.QueryEscape(password), "…").Replace(text)
}
