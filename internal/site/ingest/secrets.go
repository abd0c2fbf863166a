package ingest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/docgauge/docgauge/internal/site/logs"
)

// secrets are what the host of a source needs besides keys.
type secrets struct {
	signature string   // the key of x-vercel-signature
	verify    string   // the value of x-vercel-verify
	services  []string // ids of Fastly's services
}

// Secrets are the settings of DOCGAUGE_SITE_INGEST_SECRET, by the name of the source.
type Secrets map[string]secrets

// ParseSecrets reads DOCGAUGE_SITE_INGEST_SECRET: NAME=secret, NAME:verify=token and NAME:service=id, separated by
// commas. An error says nothing of a secret.
func ParseSecrets(text string, sources []logs.Source) (Secrets, error) {
	all, names := Secrets{}, map[string]bool{}
	for _, s := range sources {
		if name, ok := s.Pushed(); ok {
			names[name] = true
		}
	}
	var errs []error
	for i, item := range strings.Split(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, value, ok := strings.Cut(item, "=")
		name, kind, _ := strings.Cut(name, ":")
		s := all[name]
		switch {
		case !ok || value == "":
			errs = append(errs, fmt.Errorf("item %d: want NAME=secret, NAME:verify=token or NAME:service=id", i+1))
			continue
		case !names[name]:
			errs = append(errs, fmt.Errorf("item %d: DOCGAUGE_SITE_LOGS has no source http:%.64s", i+1, name))
			continue
		case kind == "":
			s.signature = value
		case kind == "verify":
			s.verify = value
		case kind == "service":
			s.services = append(s.services, value)
		default:
			errs = append(errs, fmt.Errorf("item %d: %.20q is no kind: want NAME=secret, NAME:verify=token or "+
				"NAME:service=id", i+1, kind))
		}
		all[name] = s
	}
	return all, errors.Join(errs...)
}
