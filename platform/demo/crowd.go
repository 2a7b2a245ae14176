package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"stampede/platform/auth"
	"stampede/platform/fault"
	"stampede/platform/httpx"
	"stampede/platform/loadgen"
)

// crowd is a run of shoppers under way or just finished.
type crowd struct {
	loadgen.Snapshot
	Running bool   `json:"running"`
	Summary string `json:"summary,omitempty"`
	Error   string `json:"error,omitempty"`
	ItemID  string `json:"item_id"`
}

// Bounds of a crowd: this machine plays the shoppers too.
const (
	maxShoppers  = 10_000
	crowdConns   = 128
	crowdSockets = 1_000
)

// me hands a visitor the token of a new shopper.
func (s *Service) me(w http.ResponseWriter, r *http.Request) {
	user := visitorID()
	token, err := s.deps.Tokens.Mint(auth.Principal{UserID: user, Role: auth.Shopper}, 2*time.Hour)
	if err != nil {
		httpx.WriteProblem(w, r, err)
		return
	}
	answer(w, map[string]string{"token": token, "user_id": strconv.FormatInt(user, 10)})
}

// visitorID is a user that no crowd plays: crowds count from milliseconds times
// a thousand, visitors from microseconds, which are above and never repeat.
func visitorID() int64 { return 1<<60 + time.Now().UnixMicro() }

func (s *Service) shoppers(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Shoppers int `json:"shoppers"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&in); err != nil || in.Shoppers < 1 || in.Shoppers > maxShoppers {
		httpx.WriteProblem(w, r, fault.Newf(fault.Invalid, "invalid", "Send {\"shoppers\": n} with n between 1 and %d.", maxShoppers))
		return
	}
	target, ok := s.current(time.Now().Add(time.Second)) // a sale in its last second is no target
	if !ok {
		httpx.WriteProblem(w, r, fault.New(fault.Unavailable, "unavailable", "No sale is planned yet; try again in a moment.").After(2*time.Second))
		return
	}
	s.mu.Lock()
	if s.crowd != nil && s.crowd.Running {
		s.mu.Unlock()
		httpx.WriteProblem(w, r, fault.New(fault.Conflict, "busy", "A crowd is on its way already; wait until it has settled."))
		return
	}
	c := &crowd{Running: true, ItemID: target.ItemID, Snapshot: loadgen.Snapshot{Phase: "look"}}
	s.crowd = c
	s.mu.Unlock()
	s.wait.Go(func() { s.play(s.ctx, c, in.Shoppers) })
	answer(w, map[string]any{"shoppers": in.Shoppers, "item_id": target.ItemID})
}

func (s *Service) play(ctx context.Context, c *crowd, n int) {
	cfg := loadgen.DefaultConfig()
	cfg.BaseURL, cfg.Shoppers, cfg.Connections, cfg.Sockets = s.deps.BaseURL, n, crowdConns, min(n, crowdSockets)
	cfg.FirstUser = time.Now().UnixMilli() * 1000
	cfg.ItemID, _ = strconv.ParseInt(c.ItemID, 10, 64) // the server's own id
	cfg.Token = func(user int64) (string, error) {
		return s.deps.Tokens.Mint(auth.Principal{UserID: user, Role: auth.Shopper}, time.Hour)
	}
	cfg.Observe = func(snap loadgen.Snapshot) {
		s.mu.Lock()
		c.Snapshot = snap
		s.mu.Unlock()
	}
	report, err := loadgen.Run(ctx, cfg)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Running = false
	if err != nil {
		c.Error = err.Error()
		return
	}
	c.Phase, c.Answers, c.Done, c.Total = "done", report.Answers, int64(n), int64(n)
	c.Summary = fmt.Sprintf("%.0f answers/s · refusal p99 %.0f ms · order visible p99 %.0f ms · push p99 %.0f ms",
		report.PerSecond, report.Latency["refusal"].P99, report.Latency["order visible"].P99, report.Latency["push"].P99)
	if len(report.Violations) > 0 {
		c.Error = fmt.Sprintf("%d broken promises, first: order %s %s", len(report.Violations), report.Violations[0].OrderNo, report.Violations[0].Detail)
	}
}

func (s *Service) prove(w http.ResponseWriter, r *http.Request) {
	outcomes := s.deps.Prove(r.Context())
	ok := true
	for _, o := range outcomes {
		ok = ok && o.OK()
	}
	answer(w, map[string]any{"ok": ok, "outcomes": outcomes})
}

// streamEvery is how often the page is told: smooth for the eye, and cheap.
const streamEvery = 250 * time.Millisecond

// live streams the page's state as server-sent events.
func (s *Service) live(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	for {
		raw, err := json.Marshal(s.state(r.Context()))
		if err != nil {
			s.deps.Log.ErrorContext(r.Context(), "live page state cannot be encoded", "error", err)
			return
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", raw); err != nil || out.Flush() != nil {
			return // the page was closed
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Service) state(ctx context.Context) map[string]any {
	now := time.Now()
	state := map[string]any{"server_time": now.UTC()}
	item := ""
	if x, ok := s.current(now); ok {
		state["sale"], item = x, x.ItemID
	}
	s.mu.Lock()
	if s.crowd != nil {
		c := *s.crowd
		state["crowd"] = c
	}
	s.mu.Unlock()
	if id, err := strconv.ParseInt(item, 10, 64); err == nil {
		if b, err := s.deps.Books(ctx, id); err == nil {
			state["books"] = b
		}
	}
	return state
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}
