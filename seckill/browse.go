package seckill

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coocood/freecache"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"stampede/platform/clock"
	"stampede/platform/fault"
	"stampede/platform/httpx"
	"stampede/seckill/catalogue"
)

// stateReaders is how many stock states one answer reads at a time: enough to
// hide the round trips, few enough to leave connections to the lanes.
const stateReaders = 8

// errCannotBrowse hides what failed behind the shop window; the log has it.
var errCannotBrowse = fault.New(fault.Unavailable, "unavailable", "The shop window cannot be shown right now; try again in a moment.").After(time.Second)

// browser answers shoppers who look around. Its answers come from memory or
// Redis, for anybody, without a token.
type browser struct {
	deps      Deps
	catalogue *catalogue.Catalogue
	views     *viewStore
	cache     *browseCache
	list      sessionList
	clock     clock.Clock
	built     *prometheus.CounterVec
}

// newBrowser makes the shop window; it reads nothing yet.
func newBrowser(cfg Config, deps Deps, items *catalogue.Catalogue, views *viewStore) *browser {
	b := &browser{
		deps: deps, catalogue: items, views: views, clock: deps.Clock,
		cache: &browseCache{kept: freecache.NewCache(cfg.BrowseCacheBytes), now: deps.Clock.Now},
		built: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stampede_seckill_browse_built_total", Help: "Browse answers made from Redis, because none was kept in memory.",
		}, []string{"what"}),
	}
	deps.Metrics.MustRegister(b.built)
	return b
}

// Conditional is what a client says it has.
type Conditional struct {
	IfNoneMatch string `header:"If-None-Match" maxLength:"1024" doc:"The ETag of an answer that the client still has"`
}

type browseInput struct {
	ByID
	Conditional
}

// shown is a cacheable answer.
type shown[T any] struct {
	Status       int
	ETag         string `header:"ETag"`
	CacheControl string `header:"Cache-Control"`
	Body         document[T]
}

// cacheControl lets browsers and CDNs keep what this process would keep too.
const cacheControl = "public, max-age=1"

func (b *browser) routes(api httpx.API) {
	notThere := map[int]string{http.StatusNotFound: "not-found", http.StatusServiceUnavailable: "unavailable"}
	httpx.Register(api, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/sessions", ID: "list-sessions", Tag: "shopper",
		Summary: "Sessions that are open, will open, or closed within the last hour, in this order",
		Description: "Running sessions come first, the one that closes soonest in front; then upcoming ones, the one that opens soonest in front; " +
			"then those that ended, the last one in front. The pages of one walk keep the order of its first page.",
		Problems: map[int]string{http.StatusUnprocessableEntity: "invalid", http.StatusServiceUnavailable: "unavailable"},
	}, b.listSessions)
	httpx.Register(api, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/sessions/{id}", ID: "get-session", Tag: "shopper",
		Summary: "A session with its items and what is left of them", Problems: notThere,
	}, func(ctx context.Context, in *browseInput) (*shown[shopSession], error) {
		return show[shopSession](ctx, b, "s", in, "There is no session with this id.", b.buildSession)
	})
	httpx.Register(api, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/items/{id}", ID: "get-item", Tag: "shopper",
		Summary: "An item and what is left of it", Problems: notThere,
	}, func(ctx context.Context, in *browseInput) (*shown[shopItem], error) {
		return show[shopItem](ctx, b, "i", in, "There is no item with this id.", b.buildItem)
	})
	b.registerTime(api)
}

// show answers with what build makes of an id.
func show[T any](ctx context.Context, b *browser, kind string, in *browseInput, missing string,
	build func(ctx context.Context, id int64) (any, time.Time, error),
) (*shown[T], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	r, err := b.cache.get(ctx, kind+strconv.FormatInt(id, 10), func(ctx context.Context) (any, time.Time, error) {
		b.built.WithLabelValues(kind).Inc()
		return build(ctx, id)
	})
	if err != nil {
		b.deps.Log.WarnContext(ctx, "browse answer not made", "kind", kind, "id", id, "error", err)
		return nil, errCannotBrowse.Because(err)
	}
	if len(r.raw) == 0 {
		return nil, fault.New(fault.NotFound, "not-found", missing)
	}
	return answerWith[T](r, in.IfNoneMatch, b.clock.Now()), nil
}

// answerWith sends a browsed answer, or 304 to a client that has it.
func answerWith[T any](r browsed, ifNoneMatch string, now time.Time) *shown[T] {
	out := &shown[T]{Status: http.StatusOK, ETag: r.etag, CacheControl: cacheControl, Body: document[T]{raw: r.raw, now: now}}
	if matches(ifNoneMatch, r.etag) {
		out.Status = http.StatusNotModified
	}
	return out
}

// matches compares weakly (RFC 9110 §13.1.2): a proxy may have weakened the tag.
func matches(ifNoneMatch, etag string) bool {
	for tag := range strings.SplitSeq(ifNoneMatch, ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
			return true
		}
	}
	return false
}

// buildSession makes a session's answer; nil when nobody published it.
func (b *browser) buildSession(ctx context.Context, id int64) (any, time.Time, error) {
	stored, ok, err := b.stored(ctx, id, func() (storedSession, bool, error) { return b.views.session(ctx, id) })
	if err != nil || !ok {
		return nil, time.Time{}, err
	}
	items, err := b.withStates(ctx, &stored)
	if err != nil {
		return nil, time.Time{}, err
	}
	now := b.clock.Now()
	view := shopSessionOf(&stored, now)
	view.Items = items
	return view, nextChange(&stored, now), nil
}

// buildItem makes an item's answer; nil when nobody published it.
func (b *browser) buildItem(ctx context.Context, id int64) (any, time.Time, error) {
	item, ok := b.catalogue.Item(id)
	if !ok {
		return nil, time.Time{}, nil
	}
	stored, ok, err := b.stored(ctx, item.SessionID, func() (storedSession, bool, error) { return b.views.item(ctx, item.SessionID, id) })
	if err != nil || !ok {
		return nil, time.Time{}, err
	}
	items, err := b.withStates(ctx, &stored)
	if err != nil {
		return nil, time.Time{}, err
	}
	return items[0], nextChange(&stored, b.clock.Now()), nil
}

// stored reads a view. Where Redis has lost one of a session that the catalogue
// knows, it is written again first, once for everybody who misses it; an id
// that nobody published never gets as far as Postgres.
func (b *browser) stored(ctx context.Context, sessionID int64, read func() (storedSession, bool, error)) (storedSession, bool, error) {
	s, ok, err := read()
	if err != nil || ok {
		return s, ok, err
	}
	activityID, known := b.catalogue.ActivityOf(sessionID)
	if !known {
		return s, false, nil
	}
	if err := b.views.restore(ctx, activityID); err != nil {
		return s, false, err
	}
	return read()
}

// withStates shows a session's items with what Redis says is left of them.
func (b *browser) withStates(ctx context.Context, s *storedSession) ([]shopItem, error) {
	out := make([]shopItem, len(s.items))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(stateReaders)
	for i := range s.items {
		g.Go(func() error {
			stock := (&catalogue.Item{ID: int64(s.items[i].ID), ActivityID: int64(s.ActivityID), PerActivity: s.PerActivity}).Stock()
			state, ok, err := b.deps.Stock.State(ctx, stock)
			if err != nil {
				return err
			}
			out[i] = shopItemOf(s, &s.items[i], state, ok && state.Ready(), b.clock.Now())
			return nil
		})
	}
	return out, g.Wait()
}
