package humancheck

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/clock"
	"stampede/platform/edge/outbound"
)

const (
	// breakerDelay is how long no request is made after breakerFailures.
	breakerDelay = 5 * time.Second
	// breakerFailures consecutive failures are more than one bad connection.
	breakerFailures = 5
	// maxQuestions bounds the requests that a hanging provider ties up: at 50 ms for
	// an answer they are 5,000 a second.
	maxQuestions = 256
	// maxReplyBytes is far more than the documented replies.
	maxReplyBytes = 64 << 10
)

// provider is a service that judges browsers and gives a page a token for its verdict.
// Safe for concurrent use.
type provider struct {
	*outbound.Client
	api   api
	slots chan struct{}
}

// api is how a kind of provider is asked about a token.
type api interface {
	// ask makes the request. It refuses a token that the kind's widget cannot have given.
	// client may be invalid when it is unknown.
	ask(token string, client netip.Addr) (question, error)
	// read reads the answer. An error means that the provider failed, or rejects the
	// shop's settings; what a client can bring about is a verdict, because errors open
	// the breaker.
	read(r outbound.Reply) (verdict, error)
}

// question is a request about a token.
type question struct {
	outbound.Request
	once string    // names what the widget gave; empty where the provider alone remembers it
	at   time.Time // when the widget was solved, as far as the token says it
}

// verdict is what a provider says about a token.
type verdict struct {
	no     error     // why the token is refused; nil if a person solved the widget
	at     time.Time // when; zero if the provider does not say it
	page   *page     // where; nil if the provider does not say it
	ticket string    // that the widget was given, if the provider returns it
	hint   string    // what the operator should know about the refusal
}

type page struct{ host, action string }

func newProvider(cfg Config, now clock.Clock, reg prometheus.Registerer) *provider {
	p := &provider{slots: make(chan struct{}, maxQuestions)}
	attempts := 1 // the provider may have used the token up although its answer got lost
	switch cfg.VerifierKind {
	case GeeTest:
		p.api = geetest{cfg.Settings}
	case Tencent:
		p.api = tencent{cfg.Settings, now}
	case Aliyun:
		p.api = aliyun{cfg.Settings, now}
	default:
		p.api, attempts = siteverify{cfg.Settings}, 2
	}
	p.Client = outbound.New(outbound.Config{
		Peer: "verifier", Timeout: cfg.VerifierTimeout, Whole: true, Attempts: attempts, BreakerFailures: breakerFailures, BreakerDelay: cfg.BreakerDelay,
		Conns: maxQuestions, MaxBytes: maxReplyBytes, Metrics: reg,
	})
	return p
}

// errBusy is returned when the maximum number of requests is in flight.
var errBusy = errors.New("humancheck: too many requests to the verifier are in flight")

// verify asks the question about a token. An error means that the provider failed; a bad
// token is a verdict. It returns within seconds.
func (p *provider) verify(ctx context.Context, q question) (v verdict, err error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		return v, errBusy
	}
	err = p.Do(ctx, q.Request, func(answered outbound.Reply) (err error) {
		v, err = p.api.read(answered)
		return err
	})
	if err != nil {
		return v, fmt.Errorf("humancheck: query the verifier: %w", err)
	}
	if v.at.IsZero() {
		v.at = q.at
	}
	return v, nil
}
