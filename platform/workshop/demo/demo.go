// Package demo is the demo of `stampede run`: a sale that opens every three
// minutes, a crowd to send to it, a Redis to kill under the crowd, the books while it
// runs and their proof. It drives the server like any client, over its HTTP API; only
// the books, the proof and what happens to Redis are passed to it as functions.
//
// It exists only in `run`: its routes give a shopper's token to any caller.
package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/outbound"
	"stampede/platform/watch/preflight"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/loadgen"
)

// Deps are demo's dependencies.
type Deps struct {
	BaseURL string // this server's address
	Tokens  *auth.Tokens
	// Books is one item's account as JSON: total, available, held, sold, and the
	// difference, in which anything but 0 is an error.
	Books func(ctx context.Context, itemID int64) (any, error)
	Prove func(ctx context.Context) []proof.Outcome
	Log   *slog.Logger
	Zone  *time.Location // the shop's, in which sales are named; nil is the machine's
	// KillRedis ends the process of Redis, which is then started again.
	KillRedis func(ctx context.Context) error
	// Readiness tells each component's error, nil if it is well.
	Readiness func(ctx context.Context) (ready bool, components map[string]error)
	Every     time.Duration // between two openings
}

// MinEvery is the least time between two openings: a sale must be planned and
// loaded before it opens.
const MinEvery = 10 * time.Second

const (
	stock    = 300
	payAfter = time.Minute // short: a visitor sees units return
)

// Service is the demo. Safe for concurrent use.
type Service struct {
	deps Deps

	mu     sync.Mutex
	sales  []sale // planned, oldest first
	crowd  *crowd
	outage *outage
	wait   sync.WaitGroup
	stop   context.CancelFunc
	ctx    context.Context // the lifetime of crowds, which outlive the request that started them
}

// sale is one planned opening, as the API shows items.
type sale struct {
	ItemID    string    `json:"id"`
	SessionID string    `json:"session_id"`
	Title     string    `json:"title"`
	ImageURL  string    `json:"image_url"`
	Stock     int       `json:"total"`
	ListPrice any       `json:"list_price"`
	SalePrice any       `json:"sale_price"`
	OpensAt   time.Time `json:"opens_at"`
	ClosesAt  time.Time `json:"closes_at"`
}

// New returns a demo; it starts nothing.
func New(deps Deps) (*Service, error) {
	if deps.BaseURL == "" || deps.Tokens == nil || deps.Books == nil || deps.Prove == nil || deps.Log == nil || deps.KillRedis == nil || deps.Readiness == nil {
		return nil, errors.New("demo: every dependency is required")
	}
	if deps.Every < MinEvery {
		return nil, fmt.Errorf("demo: openings must be at least %s apart, not %s", MinEvery, deps.Every)
	}
	s := &Service{deps: deps}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// Routes adds the API of the demo's page.
func (s *Service) Routes(rt *httpx.Router) {
	rt.Handle(httpx.Events, http.MethodGet, "/demo/live", s.live)
	for path, h := range map[string]http.HandlerFunc{"/demo/me": s.me, "/demo/shoppers": s.shoppers, "/demo/prove": s.prove, "/demo/kill-redis": s.killRedis} {
		rt.Mux.Post(path, s.ownPage(h))
	}
}

var errForeignPage = fault.Plain(fault.Forbidden,
	fault.T("Only this server's own pages may ask this, with a JSON body.", "仅本服务器的页面可以以 JSON 请求体调用。"))

// ownPage admits JSON of this server's pages, and of programs. Other sites' pages can
// send no JSON without asking, and a page whose name was pointed here has that name
// as its host.
func (s *Service) ownPage(next http.HandlerFunc) http.HandlerFunc {
	foreign := http.NewCrossOriginProtection()
	own := ""
	if u, err := url.Parse(s.deps.BaseURL); err == nil {
		own = u.Hostname()
	}
	return func(w http.ResponseWriter, r *http.Request) {
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || kind != "application/json" || foreign.Check(r) != nil || !httpx.OwnHost(r.Host, own) {
			httpx.WriteProblem(w, r, errForeignPage)
			return
		}
		next(w, r)
	}
}

// Workers returns the loop that plans the sales.
func (s *Service) Workers() []app.Worker {
	return []app.Worker{{Name: "demo-sales", Run: s.keepPlanning}}
}

// Stop ends crowds and streams.
func (s *Service) Stop(ctx context.Context) error {
	s.stop()
	done := make(chan struct{})
	go func() { s.wait.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.New("demo: a crowd did not end in time")
	}
}

// operator mints a token for the demo's own operator.
func (s *Service) operator() (string, error) {
	return s.deps.Tokens.Mint(auth.Principal{UserID: 1, Role: auth.Operator}, time.Hour)
}

// keepPlanning makes sure that there is always an upcoming opening. Openings
// are at whole multiples of the interval, so that a restart keeps the schedule.
func (s *Service) keepPlanning(ctx context.Context) error {
	if err := s.takeOver(ctx); err != nil {
		return err
	}
	for waited := true; waited; waited = app.Sleep(ctx, time.Second) == nil {
		next := time.Now().Truncate(s.deps.Every).Add(s.deps.Every)
		s.mu.Lock()
		planned := len(s.sales) > 0 && !s.sales[len(s.sales)-1].OpensAt.Before(next)
		s.mu.Unlock()
		if !planned {
			// A server that has just started, or that responds slowly, must
			// still have time to load the stock.
			if time.Until(next) < loadTime {
				next = next.Add(s.deps.Every)
			}
			if err := s.plan(ctx, next); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeOver adopts the sales that an earlier process planned on the same schedule: a
// restart must not list the same sale twice.
func (s *Service) takeOver(ctx context.Context) error {
	token, err := s.operator()
	if err != nil {
		return err
	}
	api := outbound.NewAPI(s.deps.BaseURL, token, listWithin)
	defer api.Close()
	s.mu.Lock()
	s.sales = nil // the worker may have been restarted
	s.mu.Unlock()
	const activities = "/api/v1/admin/activities"
	for _, status := range []string{"running", "scheduled"} {
		var page struct {
			Data []struct{ ID, Name string }
		}
		if err := api.Call(ctx, activities+"?limit=100&status="+status, nil, &page); err != nil {
			return fmt.Errorf("list the sales: %w", err)
		}
		for _, a := range page.Data {
			if _, err := time.Parse(nameLayout, a.Name); err != nil {
				continue // not the demo's
			}
			var whole struct {
				Sessions []struct {
					ID       string
					OpensAt  time.Time `json:"opens_at"`
					ClosesAt time.Time `json:"closes_at"`
					Items    []struct{ ID string }
				}
			}
			if err := api.Call(ctx, activities+"/"+a.ID, nil, &whole); err != nil {
				return fmt.Errorf("read sale %q: %w", a.Name, err)
			}
			for _, x := range whole.Sessions {
				if len(x.Items) == 1 && x.ClosesAt.Sub(x.OpensAt) == s.open() && x.OpensAt.Equal(x.OpensAt.Truncate(s.deps.Every)) {
					s.remember(x.Items[0].ID, x.ID, x.OpensAt)
				}
			}
		}
	}
	return nil
}

// listWithin bounds a request of takeOver.
const listWithin = 10 * time.Second

// loadTime is how long before its opening a sale must be planned at the latest.
const loadTime = 5 * time.Second

// keptSales is how many past sales the page can still query.
const keptSales = 3

// goods is the title of the demo's item, picture is where the pages have a drawing of
// it, and nameLayout is each sale's name, with the time of the opening.
const (
	goods      = "Demo phone 演示手机"
	picture    = "/static/phone.svg"
	nameLayout = "Demo 15:04"
)

// plan creates one sale over HTTP, as an operator would, and remembers it.
func (s *Service) plan(ctx context.Context, opens time.Time) error {
	token, err := s.operator()
	if err != nil {
		return err
	}
	if s.deps.Zone != nil {
		opens = opens.In(s.deps.Zone)
	}
	planned, err := loadgen.PlanSale(ctx, s.deps.BaseURL, token, loadgen.Sale{
		Name: opens.Format(nameLayout), Title: goods, ImageURL: picture, Stock: stock,
		OpensAt: opens, Open: s.open(), PayAfter: payAfter,
	})
	if err != nil {
		return err
	}
	for _, l := range planned.Warnings {
		if l.Level == preflight.Stop { // a warning of a demo, such as a missing backup, would be one every few minutes
			s.deps.Log.WarnContext(ctx, "demo sale published, its preflight has a stop", "activity_id", planned.ActivityID, "check", l.Title, "found", l.Found, "next", l.Next)
		}
	}
	s.remember(planned.ItemID, planned.SessionID, opens)
	return nil
}

// remember adds a sale to those that the page shows, the newest last.
func (s *Service) remember(itemID, sessionID string, opens time.Time) {
	listPrice, salePrice := loadgen.Prices()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sales = append(s.sales, sale{
		ItemID: itemID, SessionID: sessionID, Title: goods, ImageURL: picture, Stock: stock,
		ListPrice: listPrice, SalePrice: salePrice, OpensAt: opens.UTC(), ClosesAt: opens.Add(s.open()).UTC(),
	})
	slices.SortFunc(s.sales, func(a, b sale) int { return a.OpensAt.Compare(b.OpensAt) })
	s.sales = s.sales[max(0, len(s.sales)-keptSales):]
}

// open returns how long a sale is open: until a second before the next one.
func (s *Service) open() time.Duration { return s.deps.Every - time.Second }

// current returns the sale that the page shows: the open one, or else the next.
func (s *Service) current(now time.Time) (sale, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.sales {
		if now.Before(x.ClosesAt) {
			return x, true
		}
	}
	return sale{}, false
}
