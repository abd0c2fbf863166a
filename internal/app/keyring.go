package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/secretfile"
)

// pollFiles is how often a long-running process checks whether the files of its
// secrets have changed.
const pollFiles = 10 * time.Second

// Keyring holds a key of the API, or a token of a code host, that can be replaced while
// the process runs.
type Keyring struct {
	name    string // of the variable
	file    string // empty where the variable itself has the key
	isKey   func(text string) bool
	current atomic.Pointer[string]
}

// NewKeyring returns one that holds a key; files are those of all secrets, by variable.
func NewKeyring(name string, key config.Secret, files map[string]string) *Keyring {
	return newKeyring(name, key, files, func(text string) bool { return docsapi.CheckKey(text) == nil })
}

// newTokenring returns a keyring that holds a token of a code host.
func newTokenring(name string, token config.Secret, files map[string]string) *Keyring {
	return newKeyring(name, token, files, config.IsToken)
}

func newKeyring(name string, key config.Secret, files map[string]string, isKey func(string) bool) *Keyring {
	k := &Keyring{name: name, file: files[name], isKey: isKey}
	text := string(key)
	k.current.Store(&text)
	return k
}

// Get returns the present key.
func (k *Keyring) Get() string { return *k.current.Load() }

// reload reads the key's file again, and reports whether it holds another key now.
// Where the file cannot be read or holds no key, the former key stays.
func (k *Keyring) reload() (changed bool, err error) {
	if k.file == "" {
		return false, nil
	}
	key, err := secretfile.Read(k.file)
	if err != nil {
		return false, fmt.Errorf("%s_FILE: %w: the former key stays in use", k.name, err)
	}
	if key == k.Get() {
		return false, nil
	}
	if !k.isKey(key) {
		return false, fmt.Errorf("%s_FILE: %s does not hold a key: the former one stays in use", k.name, k.file)
	}
	k.current.Store(&key)
	return true, nil
}

// Watch reloads the key when its file changes, until ctx ends. It calls changed after it
// has stored a new key.
func (k *Keyring) Watch(ctx context.Context, log *slog.Logger, changed func()) {
	logged := ""
	watchFiles(ctx, func() {
		fresh, err := k.reload()
		switch {
		case err != nil && err.Error() != logged:
			log.Warn("key not reloaded", "error", err)
		case fresh:
			log.Info("key reloaded", "variable", k.name)
			changed()
		}
		logged = ""
		if err != nil {
			logged = err.Error()
		}
	})
}

// WatchSecrets warns once when the file of a secret that is read only at the start and at
// a reload holds another one, until ctx ends.
func WatchSecrets(ctx context.Context, c config.Config, log *slog.Logger) {
	secrets := c.Secrets()
	warned := map[string]bool{}
	watchFiles(ctx, func() {
		for _, s := range secrets {
			if s.File == "" || s.Live {
				continue
			}
			now, err := secretfile.Read(s.File)
			outdated := err == nil && now != "" && now != string(s.Value)
			if outdated && !warned[s.Variable] {
				log.Warn("secret has changed: send SIGHUP, or restart, to use the new one", "variable", s.Variable)
			}
			warned[s.Variable] = outdated
		}
	})
}

// watchFiles calls check now and then until ctx ends.
func watchFiles(ctx context.Context, check func()) {
	tick := time.NewTicker(pollFiles)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			check()
		}
	}
}
