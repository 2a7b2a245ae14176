package browse

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"stampede/platform/edge/httpx"
)

const (
	// listClosedFor keeps a session in the list after it closed, for shoppers who
	// come back to see how it ended.
	listClosedFor = time.Hour
	// listMost bounds the list. If a shop has more sessions than that, the list
	// has those that close first.
	listMost = 1000
)

// sessionList caches the sessions that shoppers may list, for a second or two.
// The pages of the list are cut from it, so that requests for arbitrary pages
// cost Redis nothing.
type sessionList struct {
	kept    atomic.Pointer[keptSessions]
	flights singleflight.Group
}

// keptSessions is an immutable state of the list.
type keptSessions struct {
	all           sessionOrder
	made, expires time.Time
}

func (l *sessionList) fresh(now time.Time) (sessionOrder, bool) {
	if k := l.kept.Load(); k != nil && !now.Before(k.made) && now.Before(k.expires) { // Redis's clock may have been set back
		return k.all, true
	}
	return sessionOrder{}, false
}

type listSessionsInput struct {
	httpx.PageInput
	Status string `query:"status" enum:"running,upcoming,ended" doc:"Only sessions whose window is open (running, paused or not), will open (upcoming), or is over (ended)"`
	Conditional
}

func (b *Service) listSessions(ctx context.Context, in *listSessionsInput) (*shown[httpx.Page[shopSession]], error) {
	from, err := readPlace(in.Cursor)
	if err != nil {
		return nil, err
	}
	all, err := b.listable(ctx)
	if err != nil {
		b.deps.Log.WarnContext(ctx, "session list failed", "error", err)
		return nil, errCannotBrowse.Because(err)
	}
	now := b.deps.Clock.Now()
	if in.Cursor == "" {
		from.at = all.lastTurn(now)
	}
	body := httpx.Page[shopSession]{Data: make([]shopSession, 0, in.Limit)}
	for s, at := range all.from(from) {
		if in.Status != "" && in.Status != listParts[at.part] {
			continue
		}
		if len(body.Data) == in.Limit {
			body.NextCursor = at.cursor()
			break
		}
		body.Data = append(body.Data, shopSessionOf(s, now))
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("seckill: encode session list: %w", err)
	}
	return answerWith[httpx.Page[shopSession]](browsedOf(raw), in.IfNoneMatch, now), nil
}

// listable returns the sessions to list, from memory while that is fresh.
func (b *Service) listable(ctx context.Context) (sessionOrder, error) {
	if all, ok := b.list.fresh(b.deps.Clock.Now()); ok {
		return all, nil
	}
	return together(ctx, &b.list.flights, "", browseTimeout, func(ctx context.Context) (sessionOrder, error) {
		// A caller that missed just before an earlier flight finished finds its result.
		if all, ok := b.list.fresh(b.deps.Clock.Now()); ok {
			return all, nil
		}
		b.built.WithLabelValues("list").Inc()
		read, err := b.readSessions(ctx)
		if err != nil {
			return sessionOrder{}, err
		}
		all := orderSessions(read)
		made := b.deps.Clock.Now()
		b.list.kept.Store(&keptSessions{all: all, made: made, expires: made.Add(browseLeast + rand.N(browseJitter))}) //nolint:gosec // jitter is no secret
		return all, nil
	})
}

// readSessions reads the list from Redis, after a rebuild if Redis has lost it.
func (b *Service) readSessions(ctx context.Context) ([]Session, error) {
	from := b.deps.Clock.Now().Add(-listClosedFor)
	all, whole, err := b.views.headers(ctx, from, listMost)
	if err == nil && !whole {
		if err = b.views.coalesced(ctx, "all", b.views.rebuild); err == nil {
			all, _, err = b.views.headers(ctx, from, listMost)
		}
	}
	return all, err
}
