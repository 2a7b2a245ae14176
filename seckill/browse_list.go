package seckill

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"stampede/platform/httpx"
)

const (
	// listClosedFor keeps a session in the list after it closed, for shoppers who
	// come back to see what became of it.
	listClosedFor = time.Hour
	// listMost bounds the list. A shop with more sessions ahead of it than that
	// shows those that close first.
	listMost = 1000
)

// sessionList keeps the sessions that shoppers may list, for a second or two.
// The pages of the list are cut from it, so that asking for odd pages costs
// Redis nothing.
type sessionList struct {
	kept    atomic.Pointer[keptSessions]
	flights singleflight.Group
}

// keptSessions is an immutable state of the list.
type keptSessions struct {
	all     []storedSession // in the order of opening, then of ids
	expires time.Time
}

// fresh returns what is kept unless it is too old.
func (l *sessionList) fresh(now time.Time) ([]storedSession, bool) {
	if k := l.kept.Load(); k != nil && now.Before(k.expires) {
		return k.all, true
	}
	return nil, false
}

type listSessionsInput struct {
	httpx.PageInput
	Conditional
}

// listSessions answers one page.
func (b *browser) listSessions(ctx context.Context, in *listSessionsInput) (*shown[page[shopSession]], error) {
	from, err := readPlace(in.Cursor)
	if err != nil {
		return nil, err
	}
	all, err := b.listable(ctx)
	if err != nil {
		b.deps.Log.WarnContext(ctx, "session list not made", "error", err)
		return nil, errCannotBrowse.Because(err)
	}
	now := b.clock.Now()
	start, _ := slices.BinarySearchFunc(all, from, func(s storedSession, p place) int { return comparePlaces(placeOf(&s), p) })
	body := page[shopSession]{Data: make([]shopSession, 0, in.Limit)}
	for i := start; i < len(all); i++ {
		if len(body.Data) == in.Limit {
			body.NextCursor = writePlace(placeOf(&all[i]))
			break
		}
		body.Data = append(body.Data, shopSessionOf(&all[i], now))
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("seckill: encode session list: %w", err)
	}
	return answerWith[page[shopSession]](browsedOf(raw), in.IfNoneMatch, now), nil
}

// listable returns the sessions to list, from memory while that is fresh.
func (b *browser) listable(ctx context.Context) ([]storedSession, error) {
	if all, ok := b.list.fresh(b.clock.Now()); ok {
		return all, nil
	}
	flight := b.list.flights.DoChan("", func() (any, error) {
		// Whoever missed just before an earlier flight came home finds what it brought.
		if all, ok := b.list.fresh(b.clock.Now()); ok {
			return all, nil
		}
		// Not the first caller's context: the others wait for this list too.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), browseTimeout)
		defer cancel()
		b.built.WithLabelValues("list").Inc()
		all, err := b.readSessions(ctx)
		if err != nil {
			return nil, err
		}
		b.list.kept.Store(&keptSessions{all: all, expires: b.clock.Now().Add(browseLeast + rand.N(browseJitter))}) //nolint:gosec // jitter is no secret
		return all, nil
	})
	select {
	case r := <-flight:
		all, _ := r.Val.([]storedSession)
		return all, r.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// readSessions reads the list from Redis, after a rebuild where Redis has lost
// it.
func (b *browser) readSessions(ctx context.Context) ([]storedSession, error) {
	from := b.clock.Now().Add(-listClosedFor)
	all, whole, err := b.views.headers(ctx, from, listMost)
	if err == nil && !whole {
		if err = b.views.coalesced(ctx, "all", b.views.rebuild); err == nil {
			all, _, err = b.views.headers(ctx, from, listMost)
		}
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(x, y storedSession) int { return comparePlaces(placeOf(&x), placeOf(&y)) })
	return all, nil
}

// place is where a session stands in the list.
type place struct{ opensMillis, id int64 }

func placeOf(s *storedSession) place { return place{time.Time(s.OpensAt).UnixMilli(), int64(s.ID)} }

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.opensMillis, b.opensMillis), cmp.Compare(a.id, b.id))
}

// writePlace makes a cursor of the first session of the next page.
func writePlace(p place) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d", p.opensMillis, p.id))
}

// readPlace is the inverse; no cursor is the beginning of the list.
func readPlace(cursor string) (place, error) {
	if cursor == "" {
		return place{opensMillis: -1 << 62}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return place{}, httpx.ErrCursor
	}
	ms, id, ok := strings.Cut(string(raw), ".")
	p := place{}
	if p.opensMillis, err = strconv.ParseInt(ms, 10, 64); err != nil || !ok {
		return place{}, httpx.ErrCursor
	}
	if p.id, err = strconv.ParseInt(id, 10, 64); err != nil {
		return place{}, httpx.ErrCursor
	}
	return p, nil
}
