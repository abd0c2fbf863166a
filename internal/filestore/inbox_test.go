package filestore

import (
	"io"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// TestInbox: objects of others are listed with their versions, also in a bucket without a prefix, and only that
// version is read.
func TestInbox(t *testing.T) {
	url := engines.S3URL(t, engines.S3Bucket(t), "")
	store := open(t, url)
	for _, name := range []string{"b", "a/c"} {
		check(t, store.Create(t.Context(), name, []byte("first "+name)))
	}
	for url, want := range map[string]string{
		url: "a/c b", strings.Replace(url, "/docs/gauge?", "/docs?", 1): "gauge/a/c gauge/b",
		strings.Replace(url, "/docs/gauge?", "?", 1): "docs/gauge/a/c docs/gauge/b",
	} {
		inbox, err := NewInbox(url)
		check(t, err)
		var names []string
		var objects []Object
		check(t, inbox.List(t.Context(), func(o Object) { names, objects = append(names, o.name), append(objects, o) }))
		if got := strings.Join(names, " "); got != want {
			t.Fatalf("%s lists %q, want %q", url, got, want)
		}
		file, err := inbox.Open(t.Context(), objects[0])
		check(t, err)
		text, err := io.ReadAll(io.NewSectionReader(file, 0, file.Size()))
		if check(t, err); string(text) != "first a/c" {
			t.Errorf("read %q of %+v", text, objects[0])
		}
		check(t, file.Close())
		check(t, store.Remove(t.Context(), "a/c"))
		check(t, store.Create(t.Context(), "a/c", []byte("second")))
		if _, err = inbox.Open(t.Context(), objects[0]); err == nil || !strings.Contains(err.Error(), "replaced since") {
			t.Errorf("opened another version: %v", err)
		}
		check(t, store.Remove(t.Context(), "a/c"))
		check(t, store.Create(t.Context(), "a/c", []byte("first a/c")))
		check(t, inbox.Close())
	}
	if _, err := NewInbox(t.TempDir()); err == nil {
		t.Error("a directory is an inbox")
	}
}
