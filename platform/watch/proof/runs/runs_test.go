package runs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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
	"stampede/platform/workshop/require"
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
	require.Equal(s.t, "start", []any{status, doc["status"]}, []any{http.StatusAccepted, StatusRunning})
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
		v, ok, err := Latest(t.Context(), pool)
		require.Equal(t, "latest", []any{v.ID, v.Status, ok, err}, []any{id, want, true, error(nil)})
	}
	s := open(t, pool)
	_, doc := s.ask(auth.Viewer, http.MethodGet, "?limit=2")
	require.Equal(t, "runs of a page, and more", fmt.Sprint(len(doc["data"].([]any)), doc["next_cursor"] != ""), "2 true")
	status, _ := s.ask(auth.Viewer, http.MethodPost, "")
	require.Equal(t, "a viewer starts", status, http.StatusForbidden)
	status, _ = s.ask(auth.Viewer, http.MethodGet, "/999")
	require.Equal(t, "an unknown run", status, http.StatusNotFound)
	audited := pgtest.Read[int](t, pool, `SELECT count(*) FROM platform.audit WHERE action = 'proof.start' AND actor = 7`)
	require.Equal(t, "audit records", audited, 3)
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
	for range maxAttempts {
		stop := hangs.run()
		<-entered
		_, doc := hangs.ask(auth.Viewer, http.MethodGet, "/"+id)
		require.Equal(t, "under way", []any{doc["checks_done"], doc["current"]}, []any{1.0, "I2 hangs"})
		status, doc := hangs.ask(auth.Operator, http.MethodPost, "")
		require.Equal(t, "a second run", []any{status, doc["code"]}, []any{http.StatusConflict, "proof-running"})
		other := open(t, pool, check(nil, nil))
		require.NoError(t, other.look(t.Context())) // the lease is held
		stop()
	}
	next := open(t, pool, check(nil, nil))
	next.run()
	doc := next.ended(id)
	require.Equal(t, fmt.Sprintf("after %d interruptions", maxAttempts), []any{doc["status"], doc["note"] != nil}, []any{StatusFailed, true})
	require.Equal(t, "the next run", next.ended(next.start())["status"], any(StatusProved))
}
