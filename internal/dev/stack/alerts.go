package stack

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// maxAlerts bounds a message of Alertmanager, in bytes.
const maxAlerts = 1 << 20

// startAlertmanager starts one that tells Say of each alert.
func (s *Stack) startAlertmanager(context.Context) error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	webhook := &http.Server{Handler: http.HandlerFunc(s.alerted), ReadTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		_ = webhook.Serve(listener) // it ends with Close
		close(ended)
	}()
	s.stops = append(s.stops, func() error {
		err := webhook.Close()
		<-ended
		return err
	})
	server, err := engines.StartAlertmanager(s.path("alertmanager"), "http://"+listener.Addr().String()+"/")
	if err != nil {
		return s.without(err)
	}
	s.Alertmanager = server
	s.stops = append(s.stops, server.Stop)
	return nil
}

// alerted takes a message of Alertmanager.
func (s *Stack) alerted(_ http.ResponseWriter, r *http.Request) {
	var message struct {
		Alerts []struct {
			Status      string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
	if json.NewDecoder(io.LimitReader(r.Body, maxAlerts)).Decode(&message) != nil {
		return
	}
	for _, alert := range message.Alerts {
		s.options.Say("alert " + alert.Status + ": " + alert.Labels["alertname"] + ": " + alert.Annotations["summary"])
	}
}

// alertmanagers are those that Prometheus tells.
func (s *Stack) alertmanagers() []string {
	if s.Alertmanager == nil {
		return nil
	}
	return []string{s.Alertmanager.Addr()}
}
