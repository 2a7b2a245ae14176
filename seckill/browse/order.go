package browse

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"stampede/platform/edge/httpx"
	"stampede/seckill/internal/wire"
)

// The parts of the list, in their order: what can be bought stands before what
// will be, and that before what could have been.
const (
	partRunning uint8 = iota
	partUpcoming
	partEnded
)

// listParts are the parts as shoppers name them.
var listParts = [...]string{partRunning: "running", partUpcoming: "upcoming", partEnded: "ended"}

// sessionOrder is an immutable set of sessions in the two orders that the parts
// of the list are read in, so that none is sorted while somebody waits.
type sessionOrder struct {
	opening []*Session // those that open first come first, then by id
	closing []*Session // likewise by their end
}

func orderSessions(all []Session) sessionOrder {
	o := sessionOrder{opening: make([]*Session, len(all))}
	for i := range all {
		o.opening[i] = &all[i]
	}
	o.closing = slices.Clone(o.opening)
	by := func(moment func(*Session) wire.Time) func(x, y *Session) int {
		return func(x, y *Session) int {
			return cmp.Or(time.Time(moment(x)).Compare(time.Time(moment(y))), cmp.Compare(x.ID, y.ID))
		}
	}
	slices.SortFunc(o.opening, by(func(s *Session) wire.Time { return s.OpensAt }))
	slices.SortFunc(o.closing, by(func(s *Session) wire.Time { return s.ClosesAt }))
	return o
}

// lastTurn is the last moment, up to now, at which the clock moved a session to
// another part of the list, in Unix ms; 0 when it has moved none. Until the next
// one the order stays, and so do the cursors and with them an answer's ETag.
func (o sessionOrder) lastTurn(now time.Time) int64 {
	var last int64
	for _, s := range o.opening {
		for _, turn := range [...]wire.Time{s.OpensAt, s.ClosesAt} {
			if t := time.Time(turn); !t.After(now) {
				last = max(last, t.UnixMilli())
			}
		}
	}
	return last
}

// from lists the sessions from a place on: those that are running, the one that
// closes first in front; those that are upcoming, the one that opens first in
// front; those that ended, the last one in front. All are sorted as of the
// place's own moment, which every page of one walk shares: a session that opens
// or closes meanwhile is neither left out nor shown twice.
func (o sessionOrder) from(p place) iter.Seq2[*Session, place] {
	return func(yield func(*Session, place) bool) {
		for part := p.part; int(part) < len(listParts); part++ {
			rows := o.closing
			if part == partUpcoming {
				rows = o.opening
			}
			for i := range rows {
				s := rows[i]
				if part == partEnded {
					s = rows[len(rows)-1-i]
				}
				at := placeOf(s, p.at)
				if at.part == part && at.compare(p) >= 0 && !yield(s, at) {
					return
				}
			}
		}
	}
}

// place is where a session stands in the list at a moment.
type place struct {
	at   int64 // the moment, Unix ms
	part uint8
	key  int64 // within the part; less stands before more
	id   int64 // likewise for equal keys
}

// placeOf puts a session into its part. One that an operator ended stands among
// those that ended, by the end that was planned.
func placeOf(s *Session, at int64) place {
	opens, closes := time.Time(s.OpensAt).UnixMilli(), time.Time(s.ClosesAt).UnixMilli() // views have no more digits
	switch {
	case s.Over || closes <= at:
		return place{at, partEnded, -closes, -int64(s.ID)}
	case opens <= at:
		return place{at, partRunning, closes, int64(s.ID)}
	default:
		return place{at, partUpcoming, opens, int64(s.ID)}
	}
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.part, q.part), cmp.Compare(p.key, q.key), cmp.Compare(p.id, q.id))
}

// cursor names the place as the first of the next page.
func (p place) cursor() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %d %d %d", p.at, p.part, p.key, p.id))
}

// readPlace is the inverse; no cursor is the beginning of the list, at a moment
// still to be said.
func readPlace(cursor string) (place, error) {
	if cursor == "" {
		return place{key: math.MinInt64}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return place{}, httpx.ErrCursor
	}
	var p place
	read := strings.NewReader(string(raw))
	if _, err := fmt.Fscanf(read, "%d %d %d %d", &p.at, &p.part, &p.key, &p.id); err != nil || read.Len() > 0 || int(p.part) >= len(listParts) {
		return place{}, httpx.ErrCursor
	}
	return p, nil
}
