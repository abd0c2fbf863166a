package codehost

import (
	"net"
	"net/http"
	"time"
)

const (
	defaultTimeout = 30 * time.Second
	dialTimeout    = 10 * time.Second
)

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout:     90 * time.Second,
		MaxIdleConnsPerHost: 1,
		ForceAttemptHTTP2:   true,
	}
}

type pace struct{}
