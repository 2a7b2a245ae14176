package webhook

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
)

var (
	errCursor = wrong("query.after", fault.T("after is not a value of next; leave it out to begin with the oldest event.",
		"after 不是 next 返回的值；从最早的事件开始请留空。"))
	errGone = fault.New(fault.Gone, "events-gone", fault.T("Events after this one are deleted", "此后的部分事件已删除"),
		fault.T("Events are kept for 30 days, and some after this one are older; or the database was restored from a copy that ends before it.",
			"事件保留 30 天，该位置之后的部分事件已过期；或数据库已从更早的备份恢复。"),
		fault.T("Leave after out to go on with the oldest event that is kept, and compare your records with the lists of orders and refunds.",
			"留空 after 从现存最早的事件继续，并与订单、退款列表核对。"))
)

// newsEvery is how often a reader who waits looks for news. All of an instance share the look
// at one row of one sequence, however many wait.
const newsEvery = 500 * time.Millisecond

// news is the last place of the log as some reader who waits has just seen it.
type news struct {
	last   atomic.Int64
	mu     sync.Mutex // of the reader who looks: the others take what was seen before
	looked time.Time
}

// since reports whether there may be messages at a place or later.
func (n *news) since(ctx context.Context, db pg.DB, from place) bool {
	if !n.mu.TryLock() {
		return from.Message <= n.last.Load()
	}
	defer n.mu.Unlock()
	if time.Since(n.looked) > newsEvery/2 {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		defer cancel()
		last, err := outbox.LastPlace(ctx, db)
		if err != nil {
			return true // the caller's own look says why not
		}
		n.last.Store(last)
		n.looked = time.Now()
	}
	return from.Message <= n.last.Load()
}

// lookFor is how long one answer, or one round of a webhook, looks for events of its types: a
// month's log may have none, and whoever gave up meanwhile would begin anew.
const lookFor = 5 * time.Second

// readTimeout bounds one look at the log.
const readTimeout = 10 * time.Second

// read returns events from a place on whose type is wanted, none of which may follow the
// others at once, and the place after what it has read.
func read(ctx context.Context, db pg.DB, from place, wanted func(kind string) bool, atMost int) (events []Event, next place, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	messages, err := outbox.ReadLog(ctx, db, from.Message)
	if err != nil {
		return nil, from, err
	}
	for _, m := range messages {
		if k, public := kinds[m.Subject]; public && wanted(k.name) {
			found, err := eventsOf(m)
			if err != nil && len(events) > 0 {
				return events, from, nil // the next read, which begins at this message, says what is wrong
			}
			if err != nil {
				return nil, from, err
			}
			for _, e := range found {
				if e.at.less(from) {
					continue
				}
				if len(events) == atMost {
					return events, e.at, nil
				}
				events = append(events, e)
			}
		}
		from = place{m.Place + 1, 0}
	}
	return events, from, nil
}

// wanting returns what accepts the types, all if there are none.
func wanting(names []string) func(string) bool {
	return func(name string) bool { return len(names) == 0 || slices.Contains(names, name) }
}

// Events is a page of the feed. It is exported because huma names its schema after it.
type Events struct {
	Data []Event `json:"data" nullable:"false"`
	Next string  `json:"next" doc:"Pass it as after to go on, also if there are no events yet" example:"1234-0"`
}

type eventsInput struct {
	After string   `query:"after" maxLength:"40" doc:"The next of an earlier answer; left out, the oldest event that is kept" example:"1234-0"`
	Type  []string `query:"type" maxItems:"40" doc:"Only these types" example:"order.paid"`
	Limit int      `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Wait  int      `query:"wait" minimum:"0" maximum:"30" default:"0" doc:"Seconds to wait for an event if there is none yet"`
}

func (s *Service) eventsRoute(api httpx.API) {
	httpx.Register(api, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/events", ID: "list-events", Tag: "operator", Role: auth.Viewer, Scope: auth.EventsRead, Class: httpx.Held, Load: httpx.Staff,
		Summary: "What happened, the oldest first: the events that webhooks get",
		Description: "For a system that no webhook can reach, or that was away: store `next` with what you did about the events, and ask again with it. With `wait` the " +
			"answer comes with the first event, or without one but with another `next` where a long log has none of the types. None is skipped; one may be returned again when a request is repeated. Events are kept for 30 days.",
		Refuses: []*fault.Error{errGone},
	}, s.listEvents)
}

// listEvents answers with events, at the latest when the wait or the server ends.
func (s *Service) listEvents(ctx context.Context, in *eventsInput) (*httpx.Output[Events], error) {
	for _, name := range in.Type {
		if !slices.Contains(types, name) {
			return nil, errType("query.type", name)
		}
	}
	from, err := parsePlace(in.After)
	if err != nil {
		return nil, err
	}
	if in.After != "" {
		dropped, err := outbox.DroppedPlace(ctx, s.deps.DB)
		if err != nil {
			return nil, unreachable(err)
		}
		last, err := outbox.LastPlace(ctx, s.deps.DB)
		if err != nil {
			return nil, unreachable(err)
		}
		if dropped > 0 && from.Message <= dropped || from.Message > last+1 {
			return nil, errGone
		}
	}
	deadline := time.NewTimer(time.Duration(in.Wait) * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(newsEvery)
	defer tick.Stop()
	for look := true; ; look = s.news.since(ctx, s.deps.DB, from) {
		var events []Event
		if look {
			if events, from, err = s.after(ctx, from, wanting(in.Type), in.Limit); err != nil {
				return nil, unreachable(err)
			}
		}
		if err := httpx.StillAllowed(ctx); err != nil {
			return nil, err
		}
		if len(events) > 0 || in.Wait == 0 {
			return httpx.Answer(Events{append([]Event{}, events...), from.String()}), nil
		}
		select {
		case <-tick.C:
			continue
		case <-deadline.C:
		case <-s.stopping:
		case <-ctx.Done():
		}
		return httpx.Answer(Events{[]Event{}, from.String()}), nil
	}
}

// after reads on from a place until there are events whose type is wanted, no more messages,
// or lookFor is over, and returns the place after what it has read.
func (s *Service) after(ctx context.Context, from place, wanted func(kind string) bool, atMost int) (events []Event, next place, err error) {
	began := time.Now()
	last, err := outbox.LastPlace(ctx, s.deps.DB)
	for next = from; err == nil && len(events) == 0 && next.Message <= last; from = next {
		if events, next, err = read(ctx, s.deps.DB, from, wanted, atMost); next == from || time.Since(began) > s.look {
			break
		}
	}
	return events, next, err
}
