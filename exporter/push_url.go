package exporter

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

const (
	// groups begins the path of a group.
	groups = "/metrics/job"
	// defaultJob is the group where the URL names none.
	defaultJob = "docgauge"
)

// ParsePushURL reports what is wrong with the address of a Pushgateway:
// http or https, credentials for basic authentication where it needs them, and a
// host, as in "http://gw:9091", which pushes to the group job="docgauge". A path
// that goes on with "/metrics/job/NAME" and any number of "/LABEL/VALUE" chooses
// the group. An error never holds the credentials.
func ParsePushURL(address string) error {
	_, err := parsePushURL(address)
	return err
}

// parsePushURL returns the URL of the group.
func parsePushURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		// What url.Parse says can quote the password.
		return nil, errors.New("the Pushgateway's URL cannot be read; write it as http://HOST:PORT, and % in a password as %25, @ as %40")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the Pushgateway's URL must begin with http:// or https://")
	case u.Hostname() == "":
		return nil, errors.New("the Pushgateway's URL must name a host, as in http://HOST:PORT")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the Pushgateway's URL (host %s) must not have ? or #; remove what follows", u.Host)
	}
	base, group, chosen := strings.Cut(strings.TrimRight(u.EscapedPath(), "/"), groups)
	if !chosen {
		return u.JoinPath(groups, defaultJob), nil
	}
	if err := checkGroup(group); err != nil {
		return nil, fmt.Errorf("the Pushgateway's URL (host %s): %w; write it as %s/NAME/LABEL/VALUE", u.Host, err, base+groups)
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
