package engines

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPostgresKilled kills each version and starts it again.
func TestPostgresKilled(t *testing.T) {
	for _, version := range PostgresVersions {
		t.Run(version, func(t *testing.T) {
			if version != "15" {
				Long(t)
			}
			p := RunPostgres(t, version)
			former, children := p.pid(), p.children()
			if len(children) < 4 {
				t.Errorf("processes %v", children)
			}
			if err := p.Kill(); err != nil {
				t.Fatal(err)
			}
			for _, pid := range append(children, former) {
				if alive(pid) {
					t.Errorf("process %d is still there", pid)
				}
			}
			if err := p.Restart(); err != nil {
				t.Fatal(err)
			}
			if p.pid() == former || !p.takesConnections(t.Context()) {
				t.Errorf("process %d, before %d", p.pid(), former)
			}
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(p.Data(), "postmaster.pid")); err == nil {
				t.Error("it was not stopped in order")
			}
		})
	}
}
