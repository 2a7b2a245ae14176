package browse

import (
	"cmp"
	"encoding/base64"
	"fmt"
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

// lastTurn is the last moment, up to now, at which the clock moved a session to
// another part of the list, in Unix ms; 0 if it has moved none. Until the next
// such moment the order and the cursors stay the same, and so does an answer's
// ETag.
func lastTurn(all []Session, now time.Time) int64 {
	var last int64
	for i := range all {
		for _, turn := range [...]wire.Time{all[i].OpensAt, all[i].ClosesAt} {
			if t := time.Time(turn); !t.After(now) {
				last = max(last, t.UnixMilli())
			}
		}
	}
	return last
}

// listed is a session with its place in the list.
type listed struct {
	place
	session *Session
}

// listFrom lists the sessions starting at a place: running ones, those that close
// first at the top; then upcoming ones, those that open first at the top; then
// ended ones, the most recently ended at the top. All are sorted as of the
// place's own moment, which every page of one walk shares: a session that opens
// or closes meanwhile is neither left out nor shown twice.
func listFrom(all []Session, p place) (rows []listed) {
	for i := range all {
		if at := placeOf(&all[i], p.at); at.compare(p) >= 0 {
			rows = append(rows, listed{at, &all[i]})
		}
	}
	slices.SortFunc(rows, func(a, b listed) int { return a.compare(b.place) })
	return rows
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
