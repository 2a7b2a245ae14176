package door

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/base/config"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/humancheck"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/rush"
)

// humanYard is a door with a human check, its routes, and a catalogue that the test
// fills.
type humanYard struct {
	t       *testing.T
	svc     *humanCheck
	listing *seckilltest.Listing
	human   *humancheck.Service
	proved
	rt     *httpx.Router
	tokens *auth.Tokens
	clock  *seckilltest.Clock
}

// proved are the users who passed the check with their reservation.
type proved map[int64]bool

// forgetful is a user whose proof cannot be looked up.
const forgetful = 99

func (p proved) Proved(_ context.Context, user, _ int64) (bool, error) {
	if user == forgetful {
		return false, fault.Plain(fault.Unavailable, fault.T("unavailable", "不可用"))
	}
	return p[user], nil
}

func newHumanYard(t *testing.T) *humanYard {
	t.Helper()
	rdb, log, reg := pgtest.Redis(t), slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	y := &humanYard{t: t, proved: proved{}, clock: new(seckilltest.Clock)}
	cfg := humancheck.NewConfig(config.Defaults[humancheck.Settings](), "")
	cfg.Difficulty = humancheck.MinDifficulty
	y.human = humancheck.New(cfg, humancheck.Deps{Redis: rdb, Clock: y.clock, Log: log, Metrics: reg, SigningKeys: [][]byte{seckilltest.Key}})
	y.listing = seckilltest.NewListing(t)
	y.svc = &humanCheck{
		items: y.listing.Catalogue, human: y.human, limits: ratelimit.New(rdb, log, reg), clock: y.clock, proofs: y.proved,
		pathLead: rush.DefaultConfig().PathLead,
	}
	y.tokens = auth.NewTokens(seckilltest.Key, time.Now)
	y.rt = httpx.NewRouter(y.tokens, log, "test", reg)
	y.svc.routes(y.rt)
	return y
}

// sale is an item that opens in opensIn, with the human check of its activity.
func (y *humanYard) sale(opensIn time.Duration, change func(*catalogue.Item)) *catalogue.Item {
	now := y.clock.Now()
	it := &catalogue.Item{ID: 42, OnSale: true, UserLimit: 1, OpensAt: now.Add(opensIn), ClosesAt: now.Add(opensIn + time.Hour), HumanCheck: "pow"}
	if change != nil {
		change(it)
	}
	y.listing.Show(it)
	return it
}

// ask runs the human check for a path of the item.
func (y *humanYard) ask(user int64, it *catalogue.Item, proof string) string {
	err := y.svc.check(y.t.Context(), &rush.Applicant{User: user, Item: it, Proof: proof, Now: y.clock.Now()})
	if err == nil {
		return "ok"
	}
	f := fault.From(err)
	if kind, ok := f.Fields["kind"].(humancheck.Kind); ok {
		return f.Code + " " + string(kind)
	}
	return f.Code
}

// challenge gets a challenge over HTTP, or the code of the refusal.
func (y *humanYard) challenge(user int64, query string) (c humancheck.Challenge, code string) {
	y.t.Helper()
	token := httpxtest.Token(y.t, y.tokens, auth.Principal{UserID: user, Role: auth.Shopper})
	a := httpxtest.Ask(y.t, y.rt, token, http.MethodGet, "/api/v1/items/42/challenge"+query, nil)
	if a.Status != http.StatusOK {
		return c, fmt.Sprint(a.Status, " ", a.Doc["code"])
	}
	require.NoError(y.t, json.Unmarshal(a.Raw, &c))
	return c, "200 " + string(c.Kind)
}

// solved gets a proof of work and solves it.
func (y *humanYard) solved(user int64, query string) string {
	y.t.Helper()
	c, code := y.challenge(user, query)
	require.Equal(y.t, "challenge", code, "200 pow")
	text, err := humancheck.Solve(y.t.Context(), c.Challenge, c.Difficulty)
	require.NoError(y.t, err)
	return text
}

func TestWorkAtTheDoor(t *testing.T) {
	t.Parallel()
	y := newHumanYard(t)
	it := y.sale(time.Minute, nil)
	require.Equal(t, "without a proof", y.ask(7, it, ""), "human-check-required pow")
	proof := y.solved(7, "")
	require.Equal(t, "another user's proof", y.ask(8, it, proof), "human-check-failed pow")
	require.Equal(t, "with a proof", y.ask(7, it, proof), "ok")
	require.Equal(t, "with the same proof", y.ask(7, it, proof), "human-check-failed pow")
}

// TestAProofOfTheReservationIsEnough checks that a proof of work from the
// reservation is enough at the opening, and that no other kind is.
func TestAProofOfTheReservationIsEnough(t *testing.T) {
	t.Parallel()
	y := newHumanYard(t)
	y.proved[7] = true
	for kind, want := range map[humancheck.Kind]string{"pow": "ok", "slide": "human-check-required slide", "verifier": "human-check-unavailable"} {
		it := y.sale(time.Minute, func(i *catalogue.Item) { i.HumanCheck = kind })
		require.Equal(t, string(kind), y.ask(7, it, ""), want)
	}
	require.Equal(t, "while proofs cannot be looked up", y.ask(forgetful, y.sale(time.Minute, nil), ""), "unavailable")
	it := y.sale(time.Minute, func(i *catalogue.Item) { i.ReserveFrom, i.ReserveUntil = y.clock.Now().Add(-time.Hour), y.clock.Now() })
	require.Equal(t, "work for the rush by a user without that proof", y.ask(8, it, y.solved(8, "?purpose=rush")), "ok")
	it = y.sale(time.Hour, func(i *catalogue.Item) {
		i.ReserveFrom, i.ReserveUntil = y.clock.Now().Add(-time.Hour), y.clock.Now().Add(time.Hour)
	})
	require.Equal(t, "work for the reservation, sent with the rush", y.ask(8, it, y.solved(8, "")), "human-check-failed pow")
}

// TestTheSecondCheck checks that a user who requests paths too often must pass
// a stronger check.
func TestTheSecondCheck(t *testing.T) {
	t.Parallel()
	y := newHumanYard(t)
	it := y.sale(time.Minute, func(i *catalogue.Item) { i.HumanCheck, i.HumanCheckRate = "none", 3 })
	for n := range 3 {
		require.Equal(t, fmt.Sprint("path ", n+1), y.ask(7, it, ""), "ok")
	}
	require.Equal(t, "the fourth path in a minute", y.ask(7, it, ""), "human-check-required slide")
	require.Equal(t, "with a proof of work instead", y.ask(7, it, y.solvedAs(7, it)), "human-check-required slide")
	require.Equal(t, "another user", y.ask(8, it, ""), "ok")
	other := *it
	other.ID = 43
	require.Equal(t, "another item", y.ask(7, &other, ""), "ok")
	// A proof from the reservation does not replace the second check.
	y.proved[9] = true
	it = y.sale(time.Minute, func(i *catalogue.Item) { i.HumanCheckRate = 1 })
	require.Equal(t, "the first path", y.ask(9, it, ""), "ok")
	require.Equal(t, "the second path with a rate of one", y.ask(9, it, ""), "human-check-required slide")
}

// solvedAs solves a proof of work that was not required.
func (y *humanYard) solvedAs(user int64, it *catalogue.Item) string {
	c, err := y.human.Challenge(y.t.Context(), humancheck.Pow, humancheck.Subject{Purpose: humancheck.PurposeRush, User: user, Item: it.ID})
	require.NoError(y.t, err)
	text, err := humancheck.Solve(y.t.Context(), c.Challenge, c.Difficulty)
	require.NoError(y.t, err)
	return text
}

func TestChallengesForItems(t *testing.T) {
	t.Parallel()
	y := newHumanYard(t)
	reserving := func(from, until time.Duration) func(*catalogue.Item) {
		return func(i *catalogue.Item) {
			i.ReserveFrom, i.ReserveUntil = y.clock.Now().Add(from), y.clock.Now().Add(until)
		}
	}
	for name, c := range map[string]struct {
		opensIn time.Duration
		change  func(*catalogue.Item)
		query   string
		want    string
	}{
		"paths are given out":     {opensIn: time.Minute, want: "200 pow"},
		"on sale":                 {opensIn: -time.Minute, want: "200 pow"},
		"too early":               {opensIn: time.Hour, want: "425 not-started"},
		"over":                    {opensIn: -2 * time.Hour, want: "410 ended"},
		"terminated":              {opensIn: time.Minute, change: func(i *catalogue.Item) { i.OnSale = false }, want: "410 ended"},
		"no check":                {opensIn: time.Minute, change: func(i *catalogue.Item) { i.HumanCheck = "none" }, want: "404 no-human-check"},
		"no check, by its zero":   {opensIn: time.Minute, change: func(i *catalogue.Item) { i.HumanCheck = "" }, want: "404 no-human-check"},
		"no check, asked by kind": {opensIn: time.Minute, change: func(i *catalogue.Item) { i.HumanCheck = "none" }, query: "?kind=pow", want: "404 no-human-check"},
		"another kind":            {opensIn: time.Minute, query: "?kind=slide", want: "404 no-human-check"},
		"unknown kind":            {opensIn: time.Minute, query: "?kind=none", want: "422 invalid"},
		"unknown purpose":         {opensIn: time.Minute, query: "?purpose=login", want: "422 invalid"},
		"first beside the second": {opensIn: time.Minute, change: func(i *catalogue.Item) { i.HumanCheckRate = 5 }, want: "200 pow"},
		"missing verifier":        {opensIn: time.Minute, change: func(i *catalogue.Item) { i.HumanCheck = "verifier" }, want: "503 human-check-unavailable"},
		"reserving":               {opensIn: time.Hour, change: reserving(-time.Minute, time.Minute), want: "200 pow"},
		"reserving, paths too":    {opensIn: time.Minute, change: reserving(-time.Minute, time.Minute), query: "?purpose=reservation", want: "200 pow"},
		"before reserving":        {opensIn: time.Hour, change: reserving(time.Minute, 2*time.Minute), want: "425 reservation-not-open"},
		"after reserving":         {opensIn: time.Hour, change: reserving(-2*time.Minute, -time.Minute), want: "410 reservation-closed"},
		"nothing to reserve":      {opensIn: time.Hour, query: "?purpose=reservation", want: "404 no-human-check"},
		"a slide to reserve":      {opensIn: time.Hour, change: func(i *catalogue.Item) { reserving(-time.Minute, time.Minute)(i); i.HumanCheck = "slide" }, want: "404 no-human-check"},
	} {
		y.sale(c.opensIn, c.change)
		_, got := y.challenge(7, c.query)
		require.Equal(t, name, got, c.want)
	}
	y.listing.Show()
	_, got := y.challenge(7, "")
	require.Equal(t, "an unknown item", got, "404 not-found")
}

// TestSlidesAreDrawnAhead checks that the worker draws slides before a sale, so
// that the route answers immediately.
func TestSlidesAreDrawnAhead(t *testing.T) {
	t.Parallel()
	y := newHumanYard(t)
	for name, c := range map[string]struct {
		opensIn time.Duration
		change  func(*catalogue.Item)
		want    bool
	}{
		"tomorrow":     {opensIn: 24 * time.Hour, change: func(i *catalogue.Item) { i.HumanCheck = "slide" }},
		"soon":         {opensIn: 11 * time.Minute, change: func(i *catalogue.Item) { i.HumanCheck = "slide" }, want: true},
		"second check": {opensIn: time.Minute, change: func(i *catalogue.Item) { i.HumanCheckRate = 1 }, want: true},
		"work":         {opensIn: time.Minute},
		"over":         {opensIn: -2 * time.Hour, change: func(i *catalogue.Item) { i.HumanCheck = "slide" }},
	} {
		y.sale(c.opensIn, c.change)
		require.Equal(t, name, y.svc.slidesSoon(), c.want)
	}
	it := y.sale(time.Minute, func(i *catalogue.Item) { i.HumanCheck, i.HumanCheckRate = "none", 1 })
	require.Equal(t, "the first path", y.ask(7, it, ""), "ok")
	for _, w := range append(y.human.Workers(), y.svc.worker()) {
		pgtest.Work(t, w.Run)
	}
	var c humancheck.Challenge
	pgtest.Eventually(t, time.Minute, func() bool {
		var code string
		c, code = y.challenge(7, "")
		return code == "200 slide" && c.Slide != nil
	}, "a slide is drawn")
	require.Equal(t, "a wrong place", y.ask(7, it, "slide:"+c.Challenge+".1"), "human-check-failed slide")
}

// TestNoCheckCostsNothing checks that an activity without a human check causes no
// Redis call and no allocation at its door, and needs no dependency.
func TestNoCheckCostsNothing(t *testing.T) {
	for _, kind := range []humancheck.Kind{humancheck.None, ""} {
		door, a := new(humanCheck), &rush.Applicant{User: 7, Item: &catalogue.Item{ID: 42, HumanCheck: kind}, Proof: "anything"}
		if n := testing.AllocsPerRun(100, func() {
			require.NoError(t, door.check(t.Context(), a))
		}); n != 0 {
			t.Errorf("%q: %v allocations", kind, n)
		}
	}
}

// TestTheProofTravelsInItsHeader requests paths over HTTP, like a shopper.
func TestTheProofTravelsInItsHeader(t *testing.T) {
	t.Parallel()
	h, y := newHumanYard(t), seckilltest.New(t)
	it := y.Item(5, func(i *catalogue.Item) { i.HumanCheck = "pow" })
	h.listing.Show(it)
	grants := y.NewQueue(h.listing.Catalogue, prometheus.NewRegistry())
	sale, err := rush.New(rush.DefaultConfig(), rush.Deps{
		Catalogue: h.listing.Catalogue, Places: rush.NewPlaces(rush.DefaultConfig(), h.listing.Catalogue, y.Stock, grants, h.clock), Grants: grants,
		Bus: y.Bus, Redis: y.Redis, Stock: y.Stock, Orders: y.Orders, Clock: h.clock,
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), SigningKey: seckilltest.Key, Admit: h.svc.check,
	})
	require.NoError(t, err)
	sale.Routes(h.rt)
	token := httpxtest.Token(t, h.tokens, auth.Principal{UserID: 7, Role: auth.Shopper})
	post := func(headers ...string) (status int, body []byte) {
		a := httpxtest.Ask(t, h.rt, token, http.MethodPost, fmt.Sprint("/api/v1/items/", it.ID, "/rush-path"), nil, headers...)
		return a.Status, a.Raw
	}
	var refusal struct {
		Code, Kind string
		Challenge  humancheck.Challenge
	}
	status, body := post()
	if err := json.Unmarshal(body, &refusal); err != nil || status != http.StatusForbidden || refusal.Code != "human-check-required" || refusal.Kind != "pow" {
		t.Fatalf("without a proof: %d %s", status, body)
	}
	proof, err := humancheck.Solve(t.Context(), refusal.Challenge.Challenge, refusal.Challenge.Difficulty)
	require.NoError(t, err)
	status, _ = post(humancheck.Header, proof)
	require.Equal(t, "status with the challenge of the refusal solved", status, http.StatusOK)
	status, _ = post(humancheck.Header, proof)
	require.Equal(t, "status of the same once more", status, http.StatusForbidden)
}

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }
