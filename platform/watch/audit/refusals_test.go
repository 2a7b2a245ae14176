package audit

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// Refusals of staff are recorded once a minute for each operation and path; refusals
// of shoppers are not.
func TestRefusalsAreRecorded(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	now := time.Now()
	r := NewRefusals(db, slog.New(slog.DiscardHandler))
	r.now = func() time.Time { return now }
	pause := httpx.Op{Method: http.MethodPost, ID: "pause-activity", Role: auth.Operator}
	refuse := func(user int64, role auth.Role, op httpx.Op, path string) {
		r.Record(auth.Into(t.Context(), auth.Principal{UserID: user, Role: role}), op, path)
	}
	count := func() int {
		t.Helper()
		rows, err := List(t.Context(), db, Filter{})
		require.NoError(t, err)
		return len(rows)
	}
	for _, c := range []struct {
		name string
		do   func()
		rows int
	}{
		{"a shopper", func() { refuse(1, auth.Shopper, pause, "/a/1/pause") }, 0},
		{"a viewer", func() { refuse(2, auth.Viewer, pause, "/a/1/pause") }, 1},
		{"the same again", func() { refuse(2, auth.Viewer, pause, "/a/1/pause") }, 1},
		{"another sale", func() { refuse(2, auth.Viewer, pause, "/a/2/pause") }, 2},
		{"another viewer", func() { refuse(3, auth.Viewer, pause, "/a/1/pause") }, 3},
		{"another operation", func() { refuse(2, auth.Viewer, httpx.Op{Method: http.MethodPost, ID: "resume-activity"}, "/a/1/pause") }, 4},
		{"a minute later", func() { now = now.Add(refusalEvery); refuse(2, auth.Viewer, pause, "/a/1/pause") }, 5},
		{"a client that has left", func() {
			ctx, leave := context.WithCancel(auth.Into(t.Context(), auth.Principal{UserID: 4, Role: auth.Operator}))
			leave()
			r.Record(ctx, httpx.Op{Method: http.MethodDelete, ID: "delete-user", Role: auth.Admin}, "/users/9")
		}, 6},
		{"an endless address", func() { refuse(5, auth.Viewer, pause, "/"+strings.Repeat("x", 5000)) }, 7},
	} {
		c.do()
		require.Equal(t, c.name+": rows", count(), c.rows)
	}
	rows, err := List(t.Context(), db, Filter{Actor: 4})
	if err != nil || len(rows) != 1 || rows[0].Action != "refused.delete-user" || rows[0].Subject != "/users/9" || rows[0].Role != "operator" ||
		!strings.Contains(string(rows[0].Detail), `"needs": "admin"`) {
		t.Errorf("%+v, %v", rows, err)
	}
	for i := range 3 * maxRefusals {
		if !r.isNews(refusal{9, "op", strconv.Itoa(i)}) || len(r.told) > maxRefusals {
			t.Fatalf("refusal %d with %d remembered", i, len(r.told))
		}
	}
}
