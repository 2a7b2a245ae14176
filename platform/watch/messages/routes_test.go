package messages_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
	"stampede/platform/watch/messages"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

const path = "/api/v1/admin/messages"

type wakes struct{ n int }

func (w *wakes) Wake() { w.n++ }

// bundle is the operators' side of the outbox; no relay runs.
type bundle struct {
	*testing.T
	db     *pgxpool.Pool
	router *httpx.Router
	tokens *auth.Tokens
	relay  wakes
}

func setup(t *testing.T) *bundle {
	t.Helper()
	s := &bundle{T: t, db: pgtest.DB(t), tokens: auth.NewTokens([]byte(strings.Repeat("key!", 8)), time.Now)}
	s.router = httpx.NewRouter(s.tokens, slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
	messages.Routes(s.router, s.db, &s.relay)
	return s
}

func (s *bundle) call(role auth.Role, method, path, body string) (int, map[string]any) {
	s.Helper()
	return httpxtest.As(s, s.router, s.tokens, role, method, path, body)
}

// pages reads a list page by page and returns the values of a field.
func (s *bundle) pages(query, field string) (values []string) {
	s.Helper()
	for cursor := ""; ; {
		status, doc := s.call(auth.Viewer, http.MethodGet, path+"?limit=2&"+query+"&cursor="+cursor, "")
		data, ok := doc["data"].([]any)
		if status != http.StatusOK || !ok || len(data) > 2 {
			s.Fatalf("list %s: %d %v", query, status, doc)
		}
		for _, d := range data {
			value, _ := d.(map[string]any)[field].(string)
			values = append(values, value)
		}
		if cursor, _ = doc["next_cursor"].(string); cursor == "" {
			return values
		}
	}
}

func (s *bundle) event(subject string, payload any) (id ids.ID) {
	s.Helper()
	err := pg.InTx(s.Context(), s.db, func(tx pgx.Tx) (err error) { id, err = outbox.Append(s.Context(), tx, subject, payload); return err })
	require.NoError(s, err)
	return id
}

// refused moves events to the refused ones, as the relay does; failed ones wait for an
// operator.
func (s *bundle) refused(failed bool, of ...ids.ID) {
	s.Helper()
	pgtest.Exec(s, s.db, `WITH gone AS (DELETE FROM platform.outbox WHERE id = ANY($1) RETURNING *)
		INSERT INTO platform.outbox_refused (id, subject, payload, created_at, attempts, error, next_try, failed_at)
		SELECT id, subject, payload, created_at, 3, $3, CASE WHEN $2 THEN NULL ELSE now() END, CASE WHEN $2 THEN now() END FROM gone`, of, failed, strings.Repeat("太大 ", 200))
}

// Each state is listed newest first through pages, narrowed by subject and time,
// without payloads.
func TestListsOfMessages(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var all []ids.ID
	for _, subject := range []string{"events.s1", "events.s2", "events.s3", "events.p1", "events.p2", "events.p3", "events.f1", "events.f2", "events.f3"} {
		all = append(all, s.event(subject, "x"))
	}
	pgtest.Exec(s, s.db, `UPDATE platform.outbox SET sent_at = clock_timestamp() WHERE id = ANY($1)`, all[:3])
	pgtest.Exec(s, s.db, `UPDATE platform.outbox SET day = day - 1 WHERE id = $1`, all[1]) // across a border of days, whatever the ids say
	s.refused(false, all[4])
	s.refused(true, all[6:]...)
	for query, want := range map[string][]string{
		"status=sent":                            {"events.s3", "events.s1", "events.s2"},
		"status=pending":                         {"events.p3", "events.p2", "events.p1"},
		"status=failed":                          {"events.f3", "events.f2", "events.f1"},
		"":                                       {"events.f3", "events.f2", "events.f1"},
		"status=sent&subject=events.s1":          {"events.s1"},
		"status=pending&subject=events.p2":       {"events.p2"},
		"subject=events.s1":                      nil,
		"status=sent&until=2020-01-01T00:00:00Z": nil,
		"status=pending&from=2020-01-01T00:00:00Z":                         {"events.p3", "events.p2", "events.p1"},
		"status=sent&from=2020-01-01T00:00:00Z&until=9998-01-01T00:00:00Z": {"events.s3", "events.s1", "events.s2"},
	} {
		require.Equal(t, query, s.pages(query, "subject"), want)
	}
	_, doc := s.call(auth.Viewer, http.MethodGet, path+"?status=failed&limit=1", "")
	row := doc["data"].([]any)[0].(map[string]any)
	if row["attempts"] != 3.0 || row["bytes"] != 3.0 || row["failed_at"] == nil || row["payload"] != nil || len(row["error"].(string)) > 310 {
		t.Errorf("row %v", row)
	}
	for _, query := range []string{"?cursor=x", "?cursor=2026-01-01.x", "?status=lost", "?from=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z"} {
		status, doc := s.call(auth.Viewer, http.MethodGet, path+query, "")
		require.Equal(t, fmt.Sprintf("%s: %v", query, doc), status, http.StatusUnprocessableEntity)
	}
}

// A detail has the payload with personal data masked, and every state.
func TestDetailOfAMessage(t *testing.T) {
	t.Parallel()
	s := setup(t)
	plain := s.event("events.a", `{"no": 12345678901234567890, "x":1}`) // stays as it is written
	pgtest.Exec(s, s.db, `UPDATE platform.outbox SET payload = '{"no": 12345678901234567890, "x":1}'`)
	private := s.event("events.b", map[string]any{"orders": []any{map[string]any{"no": 1, "phone": "+8613800138000", "buyer": map[string]string{"name": "李雷"}, "note": ""}}})
	several, broken := s.event("events.e", []byte(`{"x":1} {"phone":"1"}`)), s.event("events.f", []byte(`{"x":1}, {"phone":"1"}`))
	binary := s.event("events.c", []byte("\xff\x00"))
	failed := s.event("events.d", []byte("text"))
	s.refused(true, failed)
	pgtest.Exec(s, s.db, `UPDATE platform.outbox SET sent_at = clock_timestamp() WHERE id = $1`, binary)
	for _, tt := range []struct {
		id                     ids.ID
		status, field, content string
	}{
		{plain, "pending", "payload", `{"no": 12345678901234567890, "x":1}`},
		{private, "pending", "payload", `{"orders":[{"buyer":"***","no":1,"note":"","phone":"***"}]}`},
		{several, "pending", "payload", "{\"x\":1}\n{\"phone\":\"***\"}"},
		{broken, "pending", "payload", "{\"x\":1}\n***"},
		{binary, "sent", "payload_binary", "/wA="},
		{failed, "failed", "payload", "text"},
	} {
		status, doc := s.call(auth.Viewer, http.MethodGet, path+"/"+tt.id.String(), "")
		require.Equal(t, tt.content, []any{status, doc["status"], doc[tt.field]}, []any{http.StatusOK, tt.status, tt.content})
	}
	for _, id := range []string{ids.New().String(), "x"} {
		status, doc := s.call(auth.Viewer, http.MethodGet, path+"/"+id, "")
		require.Equal(t, fmt.Sprintf("%s: %v", id, doc), status, http.StatusNotFound)
	}
}

// Operators redrive one event or all failed ones, each audited once.
func TestRedriveOfMessages(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var failed []ids.ID
	for range redriveAtMost + 5 {
		failed = append(failed, s.event("events.a", "x"))
	}
	other, tried, waiting := s.event("events.b", "x"), s.event("events.c", "x"), s.event("events.d", "x")
	s.refused(true, append(failed, other)...)
	s.refused(false, tried)
	for _, tt := range []struct {
		name           string
		role           auth.Role
		path, body     string
		status         int
		redriven, left any
	}{
		{"one by a viewer", auth.Viewer, "/" + other.String() + "/redrive", "", http.StatusForbidden, nil, nil},
		{"all by a viewer", auth.Viewer, "/redrive", "{}", http.StatusForbidden, nil, nil},
		{"unknown", auth.Operator, "/" + ids.New().String() + "/redrive", "", http.StatusNotFound, nil, nil},
		{"not refused", auth.Operator, "/" + waiting.String() + "/redrive", "", http.StatusNotFound, nil, nil},
		{"refused and not failed", auth.Operator, "/" + tried.String() + "/redrive", "", http.StatusOK, 1.0, 106.0},
		{"of a subject", auth.Operator, "/redrive", `{"subject":"events.a"}`, http.StatusOK, 100.0, 5.0},
		{"failed", auth.Operator, "/" + other.String() + "/redrive", "", http.StatusOK, 1.0, 5.0},
		{"the rest", auth.Operator, "/redrive", "{}", http.StatusOK, 5.0, 0.0},
		{"none", auth.Operator, "/redrive", "{}", http.StatusOK, 0.0, 0.0},
	} {
		status, doc := s.call(tt.role, http.MethodPost, path+tt.path, tt.body)
		require.Equal(t, tt.name, []any{status, doc["redriven"], doc["left"]}, []any{tt.status, tt.redriven, tt.left})
	}
	require.Equal(t, "letters that still failed", len(s.pages("status=failed", "id")), 0)
	actions, err := audit.List(t.Context(), s.db, audit.Filter{Action: "message.redrive"})
	if err != nil || len(actions) != redriveAtMost+7 || actions[0].Actor != 7 {
		t.Errorf("%d audited, %v", len(actions), err)
	}
	require.Equal(t, "the relay was woken", s.relay.n > 0, true)
}

// redriveAtMost is the bound of one request, as documented.
const redriveAtMost = 100
