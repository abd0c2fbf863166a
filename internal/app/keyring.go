package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/secretfile"
)

// pollFiles is the time between two checks of the files of secrets.
const pollFiles = 2 * time.Second

// keyring holds a key of the API, or a token of a code host, that can be replaced while
// the process runs.
type keyring struct {
	name    string // of the variable
	file    string // empty where the variable itself has the key
	isKey   func(text string) bool
	current atomic.Pointer[string]
}

// newKeyring returns a keyring that holds key; files has the files of all secrets, by variable.
func newKeyring(name string, key config.Secret, files map[string]string, isKey func(string) bool) *keyring {
	k := &keyring{name: name, file: files[name], isKey: isKey}
	text := string(key)
	k.current.Store(&text)
	return k
}

// get returns the present key.
func (k *keyring) get() string { return *k.current.Load() }

// Watch reads the file of the key again when it changes, until ctx ends, and calls changed after it has
// stored another key. If the file cannot be read or holds no key, the former key stays.
func (k *keyring) Watch(ctx context.Context, log *slog.Logger, changed func()) {
	var last clock.LastError
	for k.file != "" && clock.Sleep(ctx, pollFiles) == nil {
		key, err := secretfile.Read(k.file)
		switch {
		case err != nil:
			err = fmt.Errorf("%s_FILE: %w: the former key stays in use", k.name, err)
		case key != k.get() && !k.isKey(key):
			err = fmt.Errorf("%s_FILE: %s does not hold a key: the former one stays in use", k.name, k.file)
		case key != k.get():
			k.current.Store(&key)
			log.Info("key reloaded", "variable", k.name)
			changed()
		}
		if last.IsNew(err) {
			log.Warn("key not reloaded", "error", err)
		}
	}
}

// WatchSecrets warns once when the file of a secret that is read only at the start and at a reload
// changes, until ctx ends.
func (a *App) WatchSecrets(ctx context.Context) {
	warned := map[string]bool{}
	for clock.Sleep(ctx, pollFiles) == nil {
		for variable, value := range a.Config.RestartSecrets() {
			now, err := secretfile.Read(a.Config.SecretFiles[variable])
			outdated := err == nil && now != "" && now != string(value)
			if outdated && !warned[variable] {
				a.Log.Warn("secret has changed: send SIGHUP, or restart, to use the new one", "variable", variable)
			}
			warned[variable] = outdated
		}
	}
}
