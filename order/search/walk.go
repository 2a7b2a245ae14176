package search

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"stampede/order/orderevent"
	"stampede/order/search/internal/searchdb"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
)

type row = searchdb.OrdersOrder

// walk reads the orders of one index from a place on, the newest first but for what is to be
// sent.
type walk struct {
	// kind leads the walk's cursors.
	kind byte
	// time is what the walk is ordered by before the number; nil for the number alone.
	time func(*row) time.Time
	read func(ctx context.Context, q *searchdb.Queries, from place, most int32) ([]row, error)
}

// The kinds of walks, by what they are ordered by.
const (
	byNumber   = 'n'
	byDeadline = 'd'
	byChange   = 'c'
	byPayment  = 'p'
	byWaiting  = 's' // for being sent, the longest first
)

// place is where a walk goes on: below a time and a number, or above them.
type place struct {
	kind byte
	at   time.Time // zero where the walk is ordered by the number alone
	no   ids.ID
}

// endOfTime is later than anything that an order carries; the beginning of a walk.
var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// start is the beginning of a walk.
func (w *walk) start() place {
	if w.kind == byWaiting {
		return place{kind: w.kind, at: time.UnixMicro(0).UTC()}
	}
	if w.time == nil {
		return place{kind: w.kind, no: httpx.LastNumber}
	}
	return place{kind: w.kind, at: endOfTime, no: httpx.LastNumber}
}

// after is the place behind a row.
func (w *walk) after(r *row) place {
	p := place{kind: w.kind, no: r.OrderNo}
	if w.time != nil {
		p.at = w.time(r)
	}
	return p
}

// String is the place as a cursor: a number, or a kind, microseconds since 1970 and a
// number.
func (p place) String() string {
	if p.at.IsZero() {
		return p.no.String()
	}
	return string(p.kind) + strconv.FormatInt(p.at.UnixMicro(), 10) + "-" + p.no.String()
}

// parsePlace parses what String returned.
func parsePlace(cursor string) (place, error) {
	if no, err := ids.Parse(cursor); err == nil {
		return place{kind: byNumber, no: no}, nil
	}
	micros, number, _ := strings.Cut(cursor, "-")
	no, err := ids.Parse(number)
	if err != nil || micros == "" {
		return place{}, httpx.ErrCursor
	}
	at, err := strconv.ParseInt(micros[1:], 10, 64)
	if err != nil || at < 0 || at > endOfTime.UnixMicro() {
		return place{}, httpx.ErrCursor
	}
	return place{kind: micros[0], at: time.UnixMicro(at).UTC(), no: no}, nil
}

// hit is a row that matches, and the place behind it.
type hit struct {
	row
	next place
}

// lastChunk is the most rows that one query reads. Each reads four times as many as the
// one before, because a search that found little is likely to go on so.
const lastChunk = 1000

// collect follows the walks from a cursor on until it has found want rows that match,
// or has read most. next is where to go on, "" at the end. It finds fewer rows than
// want, even none, when the matches are thinly spread: every filter that no index
// serves costs reading, and the bound keeps a page as fast as any other.
func (f *filter) collect(ctx context.Context, db searchdb.DBTX, cursor string, want, most int) (found []hit, next string, err error) {
	walks := f.walks()
	at, from, err := f.begin(cursor)
	if err != nil {
		return nil, "", err
	}
	q := searchdb.New(db)
	chunk := want + 1
	for read := 0; ; {
		chunk = min(chunk, most-read)
		rows, err := walks[at].read(ctx, q, from, int32(chunk)) //nolint:gosec // at most lastChunk or a page
		if err != nil {
			return nil, "", fmt.Errorf("order: search: %w", err)
		}
		for i := range rows {
			from = walks[at].after(&rows[i])
			if !f.matches(&rows[i]) {
				continue
			}
			if len(found) == want {
				return found, found[want-1].next.String(), nil
			}
			found = append(found, hit{rows[i], from})
		}
		if read += len(rows); len(rows) < chunk {
			if at++; at == len(walks) {
				return found, "", nil
			}
			from = walks[at].start()
		}
		if read >= most {
			return found, from.String(), nil
		}
		chunk = min(4*chunk, lastChunk)
	}
}

// begin returns where a cursor goes on: in which of the walks, and from which place.
func (f *filter) begin(cursor string) (at int, from place, err error) {
	walks := f.walks()
	if cursor == "" {
		return 0, walks[0].start(), nil
	}
	if from, err = parsePlace(cursor); err != nil {
		return 0, from, err
	}
	for i := range walks {
		if walks[i].kind == from.kind {
			return i, from, nil
		}
	}
	return 0, from, httpx.ErrCursor
}

// walks are the walks that find the rows of a filter, one after the other. Each reads
// an index that some of the filter bounds; matches checks the rest.
func (f *filter) walks() []walk {
	numbers := func(read func(ctx context.Context, q *searchdb.Queries, before ids.ID, most int32) ([]row, error)) []walk {
		return []walk{{kind: byNumber, read: func(ctx context.Context, q *searchdb.Queries, from place, most int32) ([]row, error) {
			before := from.no
			if bytes.Compare(f.numbers.before[:], before[:]) < 0 {
				before = f.numbers.before
			}
			return read(ctx, q, before, most)
		}}}
	}
	since := f.numbers.since
	switch {
	case f.only != nil:
		return numbers(f.readOnly)
	case f.disputed:
		return numbers(func(ctx context.Context, q *searchdb.Queries, before ids.ID, most int32) ([]row, error) {
			return q.ByDispute(ctx, searchdb.ByDisputeParams{Before: before, Since: since, Most: most})
		})
	case f.user != 0:
		return numbers(func(ctx context.Context, q *searchdb.Queries, before ids.ID, most int32) ([]row, error) {
			return q.ByUser(ctx, searchdb.ByUserParams{Bucket: ids.Bucket(f.user), UserID: f.user, Before: before, Since: since, Most: most})
		})
	case f.toShip:
		return []walk{f.byWaiting()}
	case f.status == orderevent.StatusPending:
		return []walk{f.byDeadline()}
	case f.updated.given() && f.status == "":
		return []walk{f.byDeadline(), f.byChange()}
	case f.updated.given():
		return []walk{f.byChange()}
	case f.paid.given():
		return []walk{f.byPayment()}
	case f.status != "":
		return numbers(func(ctx context.Context, q *searchdb.Queries, before ids.ID, most int32) ([]row, error) {
			return q.ByStatus(ctx, searchdb.ByStatusParams{Status: f.status, Before: before, Since: since, Most: most})
		})
	default:
		return numbers(func(ctx context.Context, q *searchdb.Queries, before ids.ID, most int32) ([]row, error) {
			return q.ByNumber(ctx, searchdb.ByNumberParams{Before: before, Since: since, Most: most})
		})
	}
}

// readOnly reads the orders of the filter's own numbers, which are few.
func (f *filter) readOnly(ctx context.Context, q *searchdb.Queries, before ids.ID, most int32) ([]row, error) {
	p := searchdb.NumberedParams{OrderNos: []ids.ID{}, Buckets: []int16{}}
	for _, no := range f.only {
		if bytes.Compare(no[:], before[:]) < 0 {
			p.OrderNos, p.Buckets = append(p.OrderNos, no), append(p.Buckets, no.Bucket())
		}
	}
	rows, err := q.Numbered(ctx, p)
	return rows[:min(len(rows), int(most))], err
}

func (f *filter) byDeadline() walk {
	return walk{byDeadline, func(r *row) time.Time { return r.PayDeadline }, func(ctx context.Context, q *searchdb.Queries, from place, most int32) ([]row, error) {
		return q.ByDeadline(ctx, searchdb.ByDeadlineParams{BeforeAt: from.at, Before: from.no, Most: most})
	}}
}

func (f *filter) byChange() walk {
	return walk{byChange, func(r *row) time.Time { return r.UpdatedAt }, func(ctx context.Context, q *searchdb.Queries, from place, most int32) ([]row, error) {
		at, no := f.updated.below(from)
		return q.ByChange(ctx, searchdb.ByChangeParams{BeforeAt: at, Before: no, SinceAt: f.updated.from, Most: most})
	}}
}

func (f *filter) byPayment() walk {
	return walk{byPayment, func(r *row) time.Time { return *r.PaidAt }, func(ctx context.Context, q *searchdb.Queries, from place, most int32) ([]row, error) {
		at, no := f.paid.below(from)
		return q.ByPayment(ctx, searchdb.ByPaymentParams{BeforeAt: at, Before: no, SinceAt: f.paid.from, Most: most})
	}}
}

func (f *filter) byWaiting() walk {
	return walk{byWaiting, func(r *row) time.Time { return *r.PaidAt }, func(ctx context.Context, q *searchdb.Queries, from place, most int32) ([]row, error) {
		return q.ToShip(ctx, searchdb.ToShipParams{AfterAt: from.at, After: from.no, Most: most})
	}}
}

// below is the earlier of a place and the span's end.
func (t timeSpan) below(from place) (time.Time, ids.ID) {
	if !t.to.IsZero() && t.to.Before(from.at) {
		return t.to, ids.ID{} // the first number of that moment: rows at it are behind the end
	}
	return from.at, from.no
}
