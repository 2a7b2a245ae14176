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

// The parts of the list in their order: sessions on sale, then upcoming ones,
// then ended ones.
const (
	partRunning uint8 = iota
	partUpcoming
	partEnded
)

// listParts are the names of the parts in the API.
var listParts = [...]string{partRunning: "running", partUpcoming: "upcoming", partEnded: "ended"}

// sessionOrder is an immutable set of sessions in the two orders that the parts
// of the list are read in, so that no request has to sort it.
type sessionOrder struct {
	opening []*Session // by opening, then by id
	closing []*Session // by closing, then by id
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
// another part of the list, in Unix ms; 0 if it has moved none. Until the next
// such moment the order and the cursors stay the same, and so does an answer's
// ETag.
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

// from lists the sessions starting at a place: running ones, those that close
// first at the top; then upcoming ones, those that open first at the top; then
// ended ones, the most recently ended at the top. All are sorted as of the
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

// place is a session's position in the list at a moment.
type place struct {
	at   int64 // the moment, Unix ms
	part uint8
	key  int64 // within the part, ascending
	id   int64 // tie-breaker for equal keys, ascending
}

// placeOf assigns a session to its part. A session that an operator ended is
// sorted among the ended ones, by its planned end.
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

// cursor encodes the place as the first of the next page.
func (p place) cursor() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %d %d %d", p.at, p.part, p.key, p.id))
}

// readPlace is the inverse; an empty cursor is the beginning of the list, at a
// moment that the caller sets.
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
