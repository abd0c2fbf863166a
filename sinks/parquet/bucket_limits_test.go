package parquet

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestObjectTooLarge refuses what one PUT cannot carry, before it reads or
// sends any of it.
func TestObjectTooLarge(t *testing.T) {
	s, direct, p := behindProxy(t)
	large := filepath.Join(t.TempDir(), "large"+stagedSuffix)
	if err := errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, maxObject+1)); err != nil {
		t.Fatal(err)
	}
	name, _ := place(visitorsTable, seal(t, 1, 3).Revision().Key)
	err := s.tree.publish(t.Context(), large, name)
	if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "use a directory") {
		t.Errorf("publish = %v", err)
	}
	if requests, _ := p.seen(); len(requests) > 0 {
		t.Errorf("the server was asked: %q", requests)
	}
	whole(t, direct)
}

// TestClientOptions looks at where requests go, by URL and by environment.
func TestClientOptions(t *testing.T) {
	for _, tc := range []struct {
		url, region, endpoint string
		want                  string
	}{
		{"s3://docs", "eu-west-1", "", "eu-west-1 <nil> false"},
		{"s3://docs?region=eu-north-1", "eu-west-1", "", "eu-north-1 <nil> false"},
		{"s3://docs?region=eu-north-1&path_style=true", "", "", "eu-north-1 <nil> true"},
		{"s3://docs?endpoint=https://minio.example:9000", "", "", "us-east-1 https://minio.example:9000 true"},
		{"s3://docs?endpoint=https://minio.example:9000&path_style=false", "", "", "us-east-1 https://minio.example:9000 false"},
		{"s3://docs", "", "https://other.example", "us-east-1 https://other.example true"},
		{"s3://docs?endpoint=https://minio.example:9000", "eu-west-1", "https://other.example", "eu-west-1 https://minio.example:9000 true"},
	} {
		s3server(t)
		t.Setenv("AWS_DEFAULT_REGION", "")
		t.Setenv("AWS_REGION", tc.region)
		t.Setenv("AWS_ENDPOINT_URL_S3", tc.endpoint)
		client, err := newSink(t, tc.url).tree.(*bucket).newClient(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		o, endpoint := client.Options(), "<nil>"
		if o.BaseEndpoint != nil {
			endpoint = *o.BaseEndpoint
		}
		if got := fmt.Sprint(o.Region, " ", endpoint, " ", o.UsePathStyle); got != tc.want {
			t.Errorf("%s with region %q and endpoint %q: %s, want %s", tc.url, tc.region, tc.endpoint, got, tc.want)
		}
	}
}

// TestWrongRange answers another part than the end that was asked for.
func TestWrongRange(t *testing.T) {
	s, _, p := behindProxy(t)
	p.set(func(_ *proxy, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("ETag", `"x"`)
		w.Header().Set("Content-Range", "bytes 0-99/200")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(make([]byte, 100))
		return true
	})
	if _, err := s.tree.open(t.Context(), "visitors/v1/x.parquet"); !errors.Is(err, errNotS3) {
		t.Errorf("open = %v", err)
	}
}

// TestHealingIsAlone keeps a repair and Replace apart: what a repair has seen
// would be another window's file by the time it removes it.
func TestHealingIsAlone(t *testing.T) {
	died := map[string]func(s *Sink) error{
		"before the removal": func(s *Sink) error {
			replace(t, s, sealTotals(t, 2))
			name, _ := place(visitorsTable, sealTotals(t, 2).Revision().Key)
			return s.tree.publish(t.Context(), copyOf(t, seal(t, 1, 3).Path()), name)
		},
		"before the totals": func(s *Sink) error {
			replace(t, s, seal(t, 1, 3))
			name, _ := place(totalsTable, seal(t, 1, 3).Revision().Key)
			return s.tree.remove(t.Context(), name)
		},
	}
	for name, leave := range died {
		t.Run(name, func(t *testing.T) {
			s, changes := newSink(t, t.TempDir()), 0
			if err := leave(s); err != nil {
				t.Fatal(err)
			}
			tree := s.tree
			s.tree = stepping{tree, func(string) {
				changes++
				if s.healing.TryRLock() {
					s.healing.RUnlock()
					t.Error("Replace could begin within a repair")
				}
			}}
			agreed(t, s, revOf(seal(t, 1, 3)), revOf(sealTotals(t, 2)))
			s.tree = stepping{tree, func(string) {
				changes++
				if s.healing.TryLock() {
					s.healing.Unlock()
					t.Error("a repair could begin within Replace")
				}
			}}
			replace(t, s, seal(t, 3, 3))
			if changes != 6 {
				t.Errorf("%d times before or after a change, want 6", changes)
			}
		})
	}
}

func copyOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	staged := filepath.Join(t.TempDir(), "copy"+stagedSuffix)
	if err := os.WriteFile(staged, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return staged
}
