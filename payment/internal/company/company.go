// Package company has what the clients of payment companies share.
package company

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/payment/provider"
	"stampede/platform/base/ids"
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

// Closed is the state of a payment whose closing at the named company gave err. A company refuses to close what has
// ended, under many codes and without saying how it ended; after any refusal, and after a lost answer, query finds out.
func Closed(name string, err error, query func() (provider.Status, error)) (provider.Status, error) {
	switch {
	case err == nil:
		return provider.Status{State: provider.Closed}, nil
	case errors.Is(err, ErrMissing):
		return provider.Status{State: provider.Missing}, nil
	}
	st, unknown := query()
	if unknown != nil || st.State == provider.Open {
		return provider.Status{}, fmt.Errorf("%s: close: %w", name, err)
	}
	return st, nil
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
func Yuan(fen int64) string { return fmt.Sprintf("%d.%02d", fen/100, fen%100) }

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

// maxRowBytes bounds a bill's row, whose longest cells are the product and the shop's
// own data.
const maxRowBytes = 64 << 10

// Bill is the form of the Chinese companies' bills: a header, and a row per movement.
type Bill struct {
	Comment string                                 // begins rows to pass over, "" for none
	Totals  string                                 // begins the rows below the movements, without which the bill is cut off; "" for none
	Cells   func(row string, columns int) []string // splits a row; columns is 0 for the header
	// Line reads a row; cell returns the trimmed cell of the first column whose name
	// begins so, "" without one. moved is false for a row that is no movement.
	Line func(cell func(column string) string) (l provider.Line, moved bool, err error)
}

// errEnough ends the reading of a bill of which no more is wanted.
var errEnough = errors.New("the rest of the bill is not wanted")

// Read passes a bill's movements on as they are read. It fails also if pass returned false,
// for no more of them.
func (b Bill) Read(r io.Reader, pass func(provider.Line) bool) error {
	rows := bufio.NewScanner(r)
	rows.Buffer(nil, maxRowBytes)
	var header []string
	at := map[string]int{}
	for rows.Scan() {
		text := strings.TrimRight(strings.TrimPrefix(rows.Text(), "\ufeff"), "\r")
		if text == "" || b.Comment != "" && strings.HasPrefix(text, b.Comment) {
			continue
		}
		if header == nil {
			header = b.Cells(text, 0)
			continue
		}
		if b.Totals != "" && strings.HasPrefix(text, b.Totals) {
			return nil
		}
		cells := b.Cells(text, len(header))
		l, moved, err := b.Line(func(column string) string {
			i, known := at[column]
			if !known {
				i = slices.IndexFunc(header, func(name string) bool { return strings.HasPrefix(strings.TrimSpace(name), column) })
				at[column] = i
			}
			if i < 0 || i >= len(cells) {
				return ""
			}
			return strings.TrimSpace(cells[i])
		})
		if err != nil {
			return err
		}
		if moved && !pass(l) {
			return errEnough
		}
	}
	switch {
	case rows.Err() != nil:
		return rows.Err()
	case header == nil:
		return errors.New("the bill has no header")
	case b.Totals != "":
		return errors.New("the bill has no totals: it is cut off")
	}
	return nil
}

// OurNumber is a number of ours in a bill, or zero for one that was made elsewhere.
func OurNumber(text string) ids.ID {
	no, err := ids.Parse(text)
	if err != nil {
		return ids.ID{}
	}
	return no
}
