// Package company has what the clients of payment companies share.
package company

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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

// Line returns what calls a company. A call takes about 100 ms, and a shopper waits;
// backoff is 0 except in tests.
func Line(peer string, backoff time.Duration, metrics prometheus.Registerer) *outbound.Client {
	return outbound.New(outbound.Config{
		Peer: peer, Conns: 32, MaxBytes: maxReplyBytes, Metrics: metrics,
		Timeout: 5 * time.Second, Attempts: 3, Backoff: cmp.Or(backoff, 100*time.Millisecond),
		BreakerFailures: 10, BreakerDelay: 2 * time.Second,
	})
}
