package docsapi

import (
	"net"
	"net/http"
	"time"
)

const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second
	maxHeader        = 64 << 10
	readBuffer       = 32 << 10
	writeBuffer      = 16 << 10
)

// NewTransport returns the base transport for reads: it keeps one idle
// connection for each of concurrency requests in flight, asks for gzip and
// unpacks it, uses the proxy of the environment, and waits timeout for the
// header of an answer.
//
// It speaks HTTP/1.1 only. There, with the bodies [Client] gives its requests,
// net/http sends each request once; over HTTP/2 the same body would make each
// GET carry an empty data frame.
func NewTransport(concurrency int, timeout time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:    handshakeTimeout,
		ResponseHeaderTimeout:  timeout,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConns:           max(concurrency, 1),
		MaxIdleConnsPerHost:    max(concurrency, 1),
		MaxResponseHeaderBytes: maxHeader,
		ReadBufferSize:         readBuffer,
		Protocols:              http1(),
	}
}

// NewWriteTransport returns the base transport for POSTs: HTTP/1.1 with a fresh
// connection for each, so that none can die of an old one and net/http has no
// reason to send it again. A header that fits the write buffer leaves with its
// body, or not at all (see watch). timeout bounds the connecting, if it is below
// 10 s; the wait for the answer is bounded by [Client] alone, so that there is one
// clock, and one message.
func NewWriteTransport(timeout time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: min(timeout, dialTimeout)}).DialContext,
		TLSHandshakeTimeout:    min(timeout, handshakeTimeout),
		MaxResponseHeaderBytes: maxHeader,
		WriteBufferSize:        writeBuffer,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		Protocols:              http1(),
	}
}

func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}
