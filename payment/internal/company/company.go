// Package company has what the clients of payment companies share.
package company

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/payment/provider"
	"stampede/platform/edge/outbound"
)

const (
	// CNY is the currency in which the Chinese companies pay out.
	CNY = "CNY"
	// MinWindow is the shortest life of a payment that the Chinese companies accept, a minute, and the
	// fraction of a second that is cut off when its end is written.
	MinWindow = time.Minute + time.Second
	// maxReplyBytes is far above any reply, which at most lists a hundred payments.
	maxReplyBytes = 4 << 20
)

// China is the zone of the Chinese companies' times.
var China = time.FixedZone("CST", 8*60*60)

// Client calls a company, and downloads its statements.
type Client struct {
	*outbound.Client
	Bills *outbound.Client
}

// NewClient returns what calls a company. Its statements, of any length, are downloaded in
// one attempt: lines that were read are not read again.
func NewClient(peer string, backoff time.Duration, metrics prometheus.Registerer) Client {
	return Client{Line(peer, backoff, metrics), outbound.New(outbound.Config{
		Peer: peer + "-bills", Conns: 1, MaxBytes: maxReplyBytes, Metrics: metrics, Timeout: 10 * time.Minute, Attempts: 1,
	})}
}

// CloseIdleConnections closes the connections that no call uses.
func (c Client) CloseIdleConnections() {
	c.Client.CloseIdleConnections()
	c.Bills.CloseIdleConnections()
}

// What a company's refusal means beside the errors of package provider.
var (
	ErrMissing = errors.New("the company does not know the number")
	ErrNoBill  = errors.New("the company has no bill of this day") // nothing moved, or it is too early
)

// Closed is the state of a payment whose closing gave err. A company that says that the
// payment has ended does not say how, so that query asks.
func Closed(err error, query func() (provider.Status, error)) (provider.Status, error) {
	switch {
	case err == nil:
		return provider.Status{State: provider.Closed}, nil
	case errors.Is(err, ErrMissing):
		return provider.Status{State: provider.Missing}, nil
	case !errors.Is(err, provider.ErrClosed):
		return provider.Status{}, fmt.Errorf("close: %w", err)
	}
	st, err := query()
	if err == nil && st.State == provider.Open {
		err = errors.New("close: the payment is still open")
	}
	return st, err
}

// BillsAfter is how long after its end a day's statement is made by the Chinese
// companies, which promise ten o'clock.
const BillsAfter = 10*time.Hour + 30*time.Minute

// NoBill is the outcome of a statement of a day of which the company says that there is no
// bill: it is empty, once bills are made.
func NoBill(now time.Time, d provider.Day) error {
	if now.Before(d.To.Add(BillsAfter)) {
		return provider.ErrNotReady
	}
	return nil
}

// Line returns what calls a company. A call takes about 100 ms, and a shopper waits;
// backoff is 0 except in tests.
func Line(peer string, backoff time.Duration, metrics prometheus.Registerer) *outbound.Client {
	return outbound.New(outbound.Config{
		Peer: peer, Conns: 32, MaxBytes: maxReplyBytes, Metrics: metrics,
		Timeout: 5 * time.Second, Attempts: 3, Backoff: cmp.Or(backoff, 100*time.Millisecond),
		BreakerFailures: 10, BreakerDelay: 2 * time.Second,
	})
}

// Yuan writes an amount in fen.
func Yuan(fen int64) string { return fmt.Sprintf("%d.%02d", fen/100, fen%100) } //nolint:mnd // fen in a yuan

var yuanPattern = regexp.MustCompile(`^(0|[1-9]\d{0,13})(?:\.(\d{1,2}))?$`)

// ParseYuan reads an amount as fen. It accepts what the companies write and nothing else: an
// amount is money, and must not be rounded.
func ParseYuan(text string) (fen int64, err error) {
	m := yuanPattern.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%.40q is not an amount in yuan", text)
	}
	return strconv.ParseInt(m[1]+(m[2] + "00")[:2], 10, 64)
}
