package audit_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// Actions are found by each filter, page by page, and cannot be changed.
func TestLogIsFilteredAndAppendOnly(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	for _, a := range []struct {
		actor           int64
		action, subject string
	}{{1, "activity.publish", "activity 1"}, {2, "activity.pause", "activity 1"}, {1, "activity.publish", "activity 2"}, {0, "alarm.acknowledge", "alarm 9"}} {
		ctx := context.Context(t.Context())
		if a.actor != 0 {
			ctx = auth.Into(ctx, auth.Principal{UserID: a.actor, Role: auth.Operator})
		}
		require.NoError(t, pg.InTx(ctx, pool, func(tx pgx.Tx) error { return audit.Record(ctx, tx, a.action, a.subject, audit.Change{After: 1}) }))
	}
	for _, c := range []struct {
		name string
		f    audit.Filter
		want string
	}{
		{"all", audit.Filter{}, "4,3,2,1"},
		{"subject", audit.Filter{Subject: "activity 1"}, "2,1"},
		{"action", audit.Filter{Action: "activity.publish"}, "3,1"},
		{"actor", audit.Filter{Actor: 2}, "2"},
		{"together", audit.Filter{Subject: "activity 1", Action: "activity.publish", Actor: 1}, "1"},
		{"page", audit.Filter{Limit: 2}, "4,3"},
		{"next page", audit.Filter{Limit: 2, Before: 3}, "2,1"},
	} {
		list, err := audit.List(t.Context(), pool, c.f)
		require.NoError(t, err)
		var ids []string
		for _, e := range list {
			ids = append(ids, string(rune('0'+e.ID)))
		}
		require.Equal(t, c.name, strings.Join(ids, ","), c.want)
	}
	err := pg.InTx(t.Context(), pool, func(tx pgx.Tx) error { return audit.Record(t.Context(), tx, "x", "y", audit.Change{Reason: "z"}) })
	require.Equal(t, "a change without before and after is recorded", err == nil, false)
	for _, sql := range []string{`UPDATE platform.audit SET actor = 3`, `DELETE FROM platform.audit`, `TRUNCATE platform.audit`} {
		_, err := pool.Exec(t.Context(), sql)
		require.Contains(t, sql, fmt.Sprint(err), "append-only")
	}
}

// What cannot be meant is refused, and so is who may not read.
func TestRouteRefuses(t *testing.T) {
	t.Parallel()
	tokens := auth.NewTokens([]byte(strings.Repeat("k", auth.MinKeyBytes)), time.Now)
	rt := httpx.NewRouter(tokens, slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
	audit.Routes(rt, pgtest.DB(t), nil)
	for _, c := range []struct {
		role   auth.Role
		query  string
		status int
	}{
		{auth.Viewer, "?actor=7&subject=activity%201", http.StatusOK},
		{auth.Viewer, "?actor=0", http.StatusUnprocessableEntity},
		{auth.Viewer, "?actor=seven", http.StatusUnprocessableEntity},
		{auth.Viewer, "?cursor=nonsense", http.StatusUnprocessableEntity},
		{auth.Shopper, "", http.StatusForbidden},
	} {
		status, doc := httpxtest.As(t, rt, tokens, c.role, http.MethodGet, "/api/v1/admin/audit"+c.query, "")
		require.Equal(t, fmt.Sprintf("%s%s: %v", c.role, c.query, doc), status, c.status)
	}
}
