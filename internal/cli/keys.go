package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/docsapi"
)

// keyPoll is how often serve looks whether a key's file has changed.
const keyPoll = 10 * time.Second

// keyring holds an API key that can be replaced while the process runs.
type keyring struct {
	name    string // of the variable
	file    string // empty where the key came in the variable itself
	current atomic.Pointer[string]
}

func newKeyring(name string, key secret, file string) *keyring {
	k := &keyring{name: name, file: file}
	text := string(key)
	k.current.Store(&text)
	return k
}

// get returns the key as it is now.
func (k *keyring) get() string { return *k.current.Load() }

// reload reads the key's file again, and reports whether it holds another key
// now. Where the file cannot be read or holds no key, the one before stays.
func (k *keyring) reload() (changed bool, err error) {
	if k.file == "" {
		return false, nil
	}
	held, err := secretIn(k.file)
	if err != nil {
		return false, fmt.Errorf("%s_FILE: %w: the former key stays in use", k.name, err)
	}
	key := string(held)
	if key == k.get() {
		return false, nil
	}
	if err := docsapi.CheckKey(key); err != nil {
		return false, fmt.Errorf("%s_FILE: %s does not hold a key: the former one stays in use", k.name, k.file)
	}
	k.current.Store(&key)
	return true, nil
}

// watch reloads at each signal, and when the file changes, until ctx ends.
// changed is told about a new key.
func (k *keyring) watch(ctx context.Context, signals <-chan os.Signal, log *slog.Logger, changed func()) {
	said := ""
	lookAgain(ctx, signals, func(asked bool) {
		fresh, err := k.reload()
		switch {
		case err != nil && (asked || err.Error() != said):
			log.Warn("key not reloaded", "error", err)
		case fresh:
			log.Info("key reloaded", "variable", k.name)
			changed()
		case asked && k.file == "":
			log.Info("key came in the environment, which does not change: restart to use another, or set "+k.name+"_FILE", "variable", k.name)
		case asked:
			log.Info("key is the same as before", "variable", k.name)
		}
		said = ""
		if err != nil {
			said = err.Error()
		}
	})
}

// lookAgain calls look every keyPoll, and at each signal, with which somebody has
// asked for an answer, until ctx ends.
func lookAgain(ctx context.Context, signals <-chan os.Signal, look func(asked bool)) {
	tick := time.NewTicker(keyPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			look(false)
		case <-signals:
			look(true)
		}
	}
}
