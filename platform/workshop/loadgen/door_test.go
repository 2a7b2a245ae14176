package loadgen

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/workshop/require"
)

// doorOfShop is what the shop requires before it issues paths.
type doorOfShop struct {
	asksWork, reserves bool
	human              string          // the item's check, for kinds that a program cannot pass
	closed             bool            // the reservation
	places             int             // available reservations
	reserved           map[string]bool // by token
	used               map[string]bool // proofs
}

func (s *shop) item(id string) map[string]any {
	now := time.Now()
	v := map[string]any{
		"id": id, "activity_id": "7", "title": "Phone", "opens_at": now.Add(-time.Minute), "closes_at": now.Add(time.Minute), "server_time": now,
		"limit_per_user": 1, "human_check": s.human,
	}
	if s.asksWork {
		v["human_check"] = "pow"
	}
	if s.reserves {
		until := now.Add(time.Minute)
		if s.closed {
			until = now.Add(-time.Second)
		}
		v["reservation_opens_at"], v["reservation_closes_at"] = now.Add(-time.Hour), until
	}
	return v
}

// bitsOfShop is little work: 16 hashes on average.
const bitsOfShop = 4

// proved accepts a proof of work for one purpose and shopper, once.
func (s *shop) proved(r *http.Request, purpose, token string) bool {
	proof := strings.TrimPrefix(r.Header.Get("Human-Check"), "pow:")
	if proof == "" {
		return false
	}
	sum := sha256.Sum256([]byte(proof))
	fresh := !s.used[proof]
	s.used[proof] = true
	return fresh && strings.HasPrefix(proof, purpose+"-"+token+".") && sum[0]>>(8-bitsOfShop) == 0
}

func (s *shop) atDoor(w http.ResponseWriter, r *http.Request, what, token string) {
	switch {
	case token == "forged":
		refuse(w, http.StatusUnauthorized, "bad-token")
	case what == "challenge":
		_, _ = fmt.Fprintf(w, `{"kind":"pow","challenge":"%s-%s","difficulty":%d}`, r.URL.Query().Get("purpose"), token, bitsOfShop)
	case r.Method == http.MethodGet && s.reserved[token]:
		_, _ = w.Write([]byte(`{}`))
	case r.Method == http.MethodGet:
		refuse(w, http.StatusNotFound, "not-found")
	case s.asksWork && !s.proved(r, "reservation", token):
		refuse(w, http.StatusForbidden, "human-check-required")
	case len(s.reserved) == s.places:
		refuse(w, http.StatusConflict, "reservation-full")
	default:
		s.reserved[token] = true
		w.WriteHeader(http.StatusCreated)
	}
}

func playOf(base string) Config {
	cfg := DefaultConfig()
	cfg.BaseURL, cfg.ItemID, cfg.Shoppers, cfg.Connections, cfg.Sockets, cfg.PayShare, cfg.Token = base, 1, 40, 16, 0, 0, mint
	return cfg
}

// TestShoppersWorkForTheirPaths checks an item that requires a proof of work.
func TestShoppersWorkForTheirPaths(t *testing.T) {
	t.Parallel()
	s := &shop{units: 10, doorOfShop: doorOfShop{asksWork: true}}
	rep, err := Run(t.Context(), playOf(open(t, s)))
	require.NoError(t, err)
	if rep.Answers["queued"] != 10 || rep.Answers["all-held"] != 30 || rep.Door == nil || rep.Door.Proofs.Count != 40 || rep.Door.Difficulty != bitsOfShop {
		t.Errorf("%+v, at the door %+v", rep.Answers, rep.Door)
	}
	if _, told := rep.Latency["path"]; told || rep.MaxConcurrent != 0 {
		t.Error("the time of the work is reported as the server's")
	}
	var out bytes.Buffer
	if err := rep.Write(&out); err != nil || !strings.Contains(out.String(), "proofs of work") {
		t.Errorf("%v; the report does not name the work:\n%s", err, out.String())
	}
}

// TestShoppersReserveFirst checks that the work is done for the reservation,
// and that shoppers without one are counted at the door.
func TestShoppersReserveFirst(t *testing.T) {
	t.Parallel()
	s := &shop{units: 10, doorOfShop: doorOfShop{asksWork: true, reserves: true, places: 25}}
	rep, err := Run(t.Context(), playOf(open(t, s)))
	require.NoError(t, err)
	if d := rep.Door; d == nil || d.Reserved != 25 || d.Refused["reservation-full"] != 15 || d.Proofs.Count != 40 {
		t.Errorf("at the door %+v", rep.Door)
	}
	if rep.Answers["queued"] != 10 || rep.Answers["all-held"] != 15 || rep.Answers["path: no-reservation-held"] != 15 {
		t.Errorf("%v", rep.Answers)
	}
}

// TestUnplayableItemIsReportedFirst checks for one sentence before requests are
// sent by the thousand.
func TestUnplayableItemIsReportedFirst(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		shop   *shop
		change func(*Config)
	}{
		"a check of kind slide, which a program cannot pass": {shop: &shop{doorOfShop: doorOfShop{human: "slide"}}},
		"its reservation closed at":                          {shop: &shop{doorOfShop: doorOfShop{reserves: true, closed: true}}},
		"is this its signing key?":                           {&shop{}, func(c *Config) { c.Token = func(int64) (string, error) { return "forged", nil } }},
	} {
		cfg := playOf(open(t, c.shop))
		if c.change != nil {
			c.change(&cfg)
		}
		if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		require.Equal(t, want+", rushed", len(c.shop.rushed), 0)
	}
}

// TestInterruptedRunStillReports checks that the report contains the answers so
// far, and does not count unchecked orders as broken promises.
func TestInterruptedRunStillReports(t *testing.T) {
	t.Parallel()
	s := &shop{units: 40}
	cfg := playOf(open(t, s))
	cfg.Rate, cfg.Connections = 20, 1
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg.Observe = func(snap Snapshot) {
		if snap.Answers[answerQueued] > 0 {
			cancel()
		}
	}
	rep, err := Run(ctx, cfg)
	if !errors.Is(err, ErrInterrupted) || rep == nil {
		t.Fatalf("%v, report %v", err, rep)
	}
	if got := rep.Answers[answerQueued]; got < 1 || got > 39 || len(rep.Violations) > 0 {
		t.Errorf("%d in line, violations %v", got, rep.Violations)
	}
	told := 0
	for _, e := range rep.Entries {
		if e.Answer == answerQueued {
			told++
		}
	}
	require.Equal(t, "attempts in line in the log", int64(told), rep.Answers[answerQueued])
}

// TestRunInterruptedBeforeTheRushNamesItsPhase checks the error.
func TestRunInterruptedBeforeTheRushNamesItsPhase(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cfg := playOf(open(t, &shop{}))
	cfg.Token = func(int64) (string, error) { cancel(); return "1", nil }
	if rep, err := Run(ctx, cfg); rep != nil || err == nil || !strings.Contains(err.Error(), "interrupted in the phase") {
		t.Errorf("%v, %v", rep, err)
	}
}

func TestCountdownShowsItsEnd(t *testing.T) {
	t.Parallel()
	got := Snapshot{Phase: "wait for the opening", Waits: 90*time.Second - time.Millisecond}.line()
	if !strings.HasPrefix(got, "wait for the opening, 1m30s to go, until 2") {
		t.Error(got)
	}
}
