package runs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
)

func TestMain(m *testing.M) { pgtest.MainWaiting(m, func() error { return goleak.Find() }) }

// shop is an instance with an operator.
type shop struct {
	*Service
	t      *testing.T
	rt     *httpx.Router
	tokens *auth.Tokens
}

func open(t *testing.T, pool *pgxpool.Pool, checks ...proof.Check) *shop {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s := &shop{t: t, Service: New(pool, checks, log), tokens: auth.NewTokens([]byte(strings.Repeat("k", 32)), time.Now)}
	s.every, s.life = 20*time.Millisecond, time.Second
	s.rt = httpx.NewRouter(s.tokens, log, "test", prometheus.NewRegistry())
	s.Routes(s.rt)
	return s
}

// run runs the worker until the test, or the returned function, ends it.
func (s *shop) run() (stop func()) { return pgtest.Work(s.t, s.Workers()[0].Run) }

func (s *shop) ask(role auth.Role, method, path string) (int, map[string]any) {
	s.t.Helper()
	return httpxtest.As(s.t, s.rt, s.tokens, role, method, "/api/v1/admin/proof"+path, "")
}

// ended waits for a run's end.
func (s *shop) ended(id string) (doc map[string]any) {
	s.t.Helper()
	pgtest.Eventually(s.t, 30*time.Second, func() bool {
		_, doc = s.ask(auth.Viewer, http.MethodGet, "/"+id)
		return doc["status"] != StatusRunning
	}, "the end of the run")
	return doc
}

func (s *shop) start() string {
	s.t.Helper()
	status, doc := s.ask(auth.Operator, http.MethodPost, "")
	if status != http.StatusAccepted || doc["status"] != StatusRunning {
		s.t.Fatalf("start: %d %v", status, doc)
	}
	return doc["id"].(string)
}

// check is a check with this result.
func check(found []proof.Violation, err error) proof.Check {
	return proof.Check{ID: "I1", Name: "never oversold", Run: func(context.Context) ([]proof.Violation, error) { return found, err }}
}

func TestRunEndsWithItsChecksResultAndItsHash(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	for want, c := range map[string]proof.Check{
		StatusProved: check(nil, nil), StatusFailed: check(nil, errors.New("redis is down")),
		StatusViolated: check([]proof.Violation{{Subject: "item 3", Detail: "2 too many"}}, nil),
	} {
		s := open(t, pool, c, check(nil, nil))
		stop := s.run()
		id := s.start()
		doc := s.ended(id)
		stop()
		sum := sha256.Sum256([]byte(doc["document"].(string)))
		outcomes, _ := doc["outcomes"].([]any)
		if doc["status"] != want || doc["sha256"] != hex.EncodeToString(sum[:]) || len(outcomes) != 2 || doc["checks_done"] != 2.0 || doc["requested_by"] != "7" {
			t.Errorf("want %s: %v", want, doc)
		}
		var found Document
		if err := json.Unmarshal([]byte(doc["document"].(string)), &found); err != nil || found.Status != want || len(found.Outcomes) != 2 || found.EndedAt.Before(found.StartedAt) {
			t.Errorf("document %v %+v", err, found)
		}
		if v, ok, err := Latest(t.Context(), pool); err != nil || !ok || v.ID != id || v.Status != want {
			t.Errorf("latest %v %v %v", v, ok, err)
		}
	}
	s := open(t, pool)
	if _, doc := s.ask(auth.Viewer, http.MethodGet, "?limit=2"); len(doc["data"].([]any)) != 2 || doc["next_cursor"] == "" {
		t.Errorf("a page: %v", doc)
	}
	if status, _ := s.ask(auth.Viewer, http.MethodPost, ""); status != http.StatusForbidden {
		t.Errorf("a viewer starts: %d", status)
	}
	if status, _ := s.ask(auth.Viewer, http.MethodGet, "/999"); status != http.StatusNotFound {
		t.Errorf("an unknown run: %d", status)
	}
	var audited int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM platform.audit WHERE action = 'proof.start' AND actor = 7`).Scan(&audited); err != nil || audited != 3 {
		t.Errorf("%d audit records, %v", audited, err)
	}
}

// A process ends in the middle of a run: another one begins again. One run at a time.
func TestInterruptedRunIsBegunAgainAndFailsAfterThreeTimes(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	entered := make(chan struct{}, 8)
	hangs := open(t, pool, check(nil, nil), proof.Check{ID: "I2", Name: "hangs", Run: func(ctx context.Context) ([]proof.Violation, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	id := hangs.start()
	for round := range maxAttempts {
		stop := hangs.run()
		<-entered
		if _, doc := hangs.ask(auth.Viewer, http.MethodGet, "/"+id); doc["checks_done"] != 1.0 || doc["current"] != "I2 hangs" {
			t.Errorf("round %d: %v", round, doc)
		}
		if status, doc := hangs.ask(auth.Operator, http.MethodPost, ""); status != http.StatusConflict || doc["code"] != "proof-running" {
			t.Errorf("a second run: %d %v", status, doc)
		}
		other := open(t, pool, check(nil, nil))
		if err := other.look(t.Context()); err != nil { // the lease is held
			t.Error(err)
		}
		stop()
	}
	next := open(t, pool, check(nil, nil))
	next.run()
	if doc := next.ended(id); doc["status"] != StatusFailed || doc["note"] == nil {
		t.Errorf("after %d interruptions: %v", maxAttempts, doc)
	}
	if doc := next.ended(next.start()); doc["status"] != StatusProved {
		t.Errorf("the next run: %v", doc)
	}
}
