// Package outbound makes the HTTP calls that leave the shop: to payment providers,
// the SMS gateway, WeChat, the human check's verifier and the alarm webhook.
//
// Each attempt has a timeout, failures are retried, and a circuit breaker makes calls
// fail immediately for a while after some consecutive failures
// (platform/adr/0010-calls-that-can-hang.md). Redirects are not followed: a request
// that is signed or contains a secret is meant for the address in the settings, and an
// answer must not lead a request to a private address. Bodies and headers are read up to a
// bound, and errors are short texts whatever the peer sent.
//
// Addresses come from the settings of the operator, who may run a gateway on loopback
// or a private network; Public is for all others.
package outbound

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/network"
)

// Config is how one peer is called.
type Config struct {
	// Peer names the peer in the metrics.
	Peer string
	// Timeout bounds one attempt, including the reading of its reply.
	Timeout time.Duration
	// Whole applies Timeout to all attempts of a call together, and makes the
	// breaker count them as one, for callers that cannot wait for a second timeout.
	Whole bool
	// Attempts is the maximum number of attempts of a call.
	Attempts int
	// Backoff is the wait before the second attempt, with a jitter of a quarter; it
	// doubles up to 16 times. 0 is none.
	Backoff time.Duration
	// BreakerFailures consecutive failures make calls fail immediately for
	// BreakerDelay; then one call probes the peer. 0 is no breaker.
	BreakerFailures int
	BreakerDelay    time.Duration
	// Conns is how many connections stay open between calls.
	Conns int
	// MaxConns bounds the connections to one host. 0 is no bound.
	MaxConns int
	// MaxBytes is how much of a reply's body is read; the rest is dropped.
	MaxBytes int64
	// Direct bypasses the proxy in the environment.
	Direct bool
	// Public refuses addresses that are not the Internet's once a name is resolved,
	// and bypasses the proxy: for addresses that are not from the settings, which must
	// not make the server talk to its own network.
	Public bool
	// TLS is nil but in tests, whose peers have certificates of their own.
	TLS *tls.Config
	// Metrics may be nil.
	Metrics prometheus.Registerer
}

// Validate checks the fields that must be above 0.
func (c Config) Validate() error {
	if c.Timeout <= 0 || c.Attempts < 1 || c.Backoff < 0 || c.BreakerFailures < 0 || c.BreakerFailures > 0 && c.BreakerDelay <= 0 || c.MaxBytes <= 0 {
		return fmt.Errorf("outbound: timeout, attempts, breaker and bytes of calls to %s must be above 0", c.Peer)
	}
	return nil
}

// ErrPrivate refuses a call to a private address.
var ErrPrivate = errors.New("outbound: the address is private, where shoppers do not reach it")

// dialer returns the transport's; one for public addresses only compares what the
// name resolved to, so that no second lookup can differ.
func dialer(public bool) *net.Dialer {
	d := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second} // as http.DefaultTransport
	if public {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			if !network.Public(at.Addr()) {
				return ErrPrivate
			}
			return nil
		}
	}
	return d
}

// headerBytes bounds the headers of a reply: some hundred times what peers send. net/http
// would keep 10 MiB of each.
const headerBytes = 64 << 10

// idleFor is how long a connection stays open between two calls.
const idleFor = 30 * time.Second

// Client calls one peer over HTTP. Safe for concurrent use.
type Client struct {
	*Calls
	cfg  Config
	http *http.Client
}

// New returns a client with valid settings. It makes no call.
func New(cfg Config) *Client {
	return &Client{
		Calls: NewCalls(cfg), cfg: cfg,
		http: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				Proxy: proxy(cfg.Direct || cfg.Public), DialContext: dialer(cfg.Public).DialContext, MaxIdleConnsPerHost: cfg.Conns, MaxConnsPerHost: cfg.MaxConns, IdleConnTimeout: idleFor, TLSClientConfig: cfg.TLS,
				MaxResponseHeaderBytes: headerBytes,
			},
		},
	}
}

func proxy(direct bool) func(*http.Request) (*url.URL, error) {
	if direct {
		return nil
	}
	return http.ProxyFromEnvironment
}

// CloseIdleConnections closes the connections that no call uses.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Request is one call.
type Request struct {
	URL  string
	Body []byte // posted; nil makes it a GET
	Type string // the body's media type
	// Head sets further headers of each attempt, such as a signature, which must be
	// fresh. May be nil.
	Head func(http.Header)
}

// Reply is the peer's reply.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte // its first MaxBytes
}

// Do makes a call until read accepts the reply. An error of read counts as a failure
// of the peer and is retried, as a broken connection is. Errors do not contain the
// address, which may contain a secret.
func (c *Client) Do(ctx context.Context, r Request, read func(Reply) error) error {
	return c.Stream(ctx, r, func(reply Reply, body io.Reader) (err error) {
		if reply.Body, err = io.ReadAll(io.LimitReader(body, c.cfg.MaxBytes)); err != nil {
			return fmt.Errorf("read the reply of status %d: %w", reply.Status, err)
		}
		return read(reply)
	})
}

// Stream is Do for a reply of any length: read gets its body, of which MaxBytes is no
// bound, and is called again for a second attempt.
func (c *Client) Stream(ctx context.Context, r Request, read func(Reply, io.Reader) error) error {
	return c.Run(ctx, func(ctx context.Context) error {
		err := c.attempt(ctx, r, read)
		if u, ok := errors.AsType[*url.Error](err); ok {
			return u.Err
		}
		return err
	})
}

func (c *Client) attempt(ctx context.Context, r Request, read func(Reply, io.Reader) error) error {
	method := http.MethodGet
	if r.Body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "stampede")
	if r.Type != "" {
		req.Header.Set("Content-Type", r.Type)
	}
	if r.Head != nil {
		r.Head(req.Header)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return read(Reply{Status: resp.StatusCode, Header: resp.Header}, resp.Body)
}
