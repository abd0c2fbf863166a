package exporter

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// CheckPushgateway asks the Pushgateway at address, which is as for
// [ParsePushURL], whether it is ready, and pushes nothing. Errors are as those
// of [Push].
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

// TryTextfile does what [WriteTextfile] needs to be able to do, and leaves the
// file at path as it is. Errors are as those of WriteTextfile.
func TryTextfile(path string) error {
	if err := CheckTextfile(path); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return textfileError(path, err)
	}
	closed := file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return textfileError(path, err)
	}
	return closed
}
