package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/loadgen"
)

// crowd is a run of shoppers, in progress or just finished.
type crowd struct {
	loadgen.Snapshot
	Running bool     `json:"running"`
	Figures *figures `json:"figures,omitempty"` // set once the crowd has finished
	Error   string   `json:"error,omitempty"`
	ItemID  string   `json:"item_id"`

	samples []sample // of its answers, one for each streamEvery of the rush; those that are there do not change
	sampled time.Time
}

// sample is how many answers came within streamEvery.
type sample struct {
	Granted int64 `json:"granted"`
	Refused int64 `json:"refused"`
}

// mostSamples bounds the chart: two minutes, of a rush that takes seconds.
const mostSamples = 480

// observe takes the crowd's progress, and what it adds to the chart.
func (c *crowd) observe(snap loadgen.Snapshot, now time.Time) {
	c.Snapshot = snap
	var all, before sample
	for code, n := range snap.Answers {
		if code == "queued" {
			all.Granted += n
		} else {
			all.Refused += n
		}
	}
	for _, x := range c.samples {
		before.Granted += x.Granted
		before.Refused += x.Refused
	}
	news := sample{all.Granted - before.Granted, all.Refused - before.Refused}
	if now.Sub(c.sampled) < streamEvery || len(c.samples) >= mostSamples || snap.Phase != "rush" && news == (sample{}) {
		return
	}
	c.samples, c.sampled = append(c.samples, news), now
}

// figures summarize a crowd: answers per second, and 99th percentiles in milliseconds.
type figures struct {
	PerSecond float64 `json:"per_second"`
	Refusal   float64 `json:"refusal"`
	Visible   float64 `json:"visible"`
	Push      float64 `json:"push"`
}

// Bounds of a crowd: this machine also plays the shoppers.
const (
	maxShoppers  = 10_000
	crowdConns   = 128
	crowdSockets = 1_000
)

// me returns the token of a new shopper for a visitor.
func (s *Service) me(w http.ResponseWriter, r *http.Request) {
	user := visitorID()
	token, err := s.deps.Tokens.Mint(auth.Principal{UserID: user, Role: auth.Shopper}, 2*time.Hour)
	if err != nil {
		httpx.WriteProblem(w, r, err)
		return
	}
	answer(w, map[string]string{"token": token, "user_id": strconv.FormatInt(user, 10)})
}

// visitorID returns a user id that no crowd uses: crowds count up from
// milliseconds times a thousand, visitors use microseconds, which are higher
// and never repeat.
func visitorID() int64 { return 1<<60 + time.Now().UnixMicro() }

var errBusy = fault.New(fault.Conflict, "busy", fault.T("Already under way", "正在进行中，请稍候"),
	fault.T("A crowd is already running; wait until it has finished.", "已有一批顾客正在抢购，请等待结束。"),
	fault.T("Wait until it has finished.", "请等待其完成后再试。"))

// shoppers sends a crowd to the current or next sale. Only one runs at a time:
// two crowds would take each other's units and distort both figures.
func (s *Service) shoppers(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Shoppers int `json:"shoppers"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&in); err != nil || in.Shoppers < 1 || in.Shoppers > maxShoppers {
		httpx.WriteProblem(w, r, fault.Plain(fault.Invalid,
			fault.T(`Send {"shoppers": n} with n between 1 and {most}.`,
				`请发送 {"shoppers": n}，n 为 1 至 {most}。`, "most", maxShoppers)))
		return
	}
	target, ok := s.current(time.Now().Add(time.Second)) // a sale in its last second is too late
	if !ok {
		httpx.WriteProblem(w, r, fault.Plain(fault.Unavailable,
			fault.T("No sale is planned yet; try again in a moment.", "还没有计划中的抢购，请稍后重试。")).After(2*time.Second))
		return
	}
	s.mu.Lock()
	if s.crowd != nil && s.crowd.Running {
		s.mu.Unlock()
		httpx.WriteProblem(w, r, errBusy)
		return
	}
	c := &crowd{Running: true, ItemID: target.ItemID, Snapshot: loadgen.Snapshot{Phase: "look"}}
	s.crowd = c
	s.mu.Unlock()
	s.wait.Go(func() { s.play(s.ctx, c, in.Shoppers) })
	answer(w, map[string]any{"shoppers": in.Shoppers, "item_id": target.ItemID})
}

// play runs the crowd in the background; the page follows it through the state.
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
		c.observe(snap, time.Now())
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
	c.sampled = time.Time{} // the last sample is shorter
	c.observe(loadgen.Snapshot{Phase: "done", Answers: report.Answers, Done: int64(n), Total: int64(n)}, time.Now())
	c.Figures = &figures{
		PerSecond: report.PerSecond, Refusal: report.Latency["refusal"].P99, Visible: report.Latency["order visible"].P99, Push: report.Latency["push"].P99,
	}
	if len(report.Violations) > 0 {
		c.Error = fmt.Sprintf("%d broken promises, first: order %s %s", len(report.Violations), report.Violations[0].OrderNo, report.Violations[0].Detail)
	}
}
