package stores

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/watch/audit"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// The audit log says what a store was before each change, and before its deletion.
func TestChangesOfAStoreAreAudited(t *testing.T) {
	t.Parallel()
	db, tokens := pgtest.DB(t), auth.NewTokens([]byte(strings.Repeat("k", auth.MinKeyBytes)), time.Now)
	router := httpx.NewRouter(tokens, slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
	New(db).Routes(router)
	token := httpxtest.Token(t, tokens, auth.Principal{UserID: 9, Role: auth.Operator})
	call := func(want int, method, path, body string) {
		t.Helper()
		if a := httpxtest.Ask(t, router, token, method, "/api/v1/admin/stores"+path, body); a.Status != want {
			t.Errorf("%s %s %s: %d, want %d: %s", method, path, body, a.Status, want, a.Raw)
		}
	}
	call(http.StatusCreated, http.MethodPost, "", `{"name":"旗舰店","address":"南京东路 1 号"}`)
	call(http.StatusUnprocessableEntity, http.MethodPost, "", `{"name":" ","address":"南京东路 1 号"}`)
	call(http.StatusUnprocessableEntity, http.MethodPost, "", `{"name":"旗\n舰店","address":"南京东路 1 号"}`)
	call(http.StatusOK, http.MethodPut, "/1", `{"name":"老店","address":"南京东路 1 号","open":false,"version":1}`)
	call(http.StatusConflict, http.MethodPut, "/1", `{"name":"旧店","address":"南京东路 1 号","open":true,"version":1}`)
	call(http.StatusNotFound, http.MethodPut, "/2", `{"name":"旧店","address":"南京东路 1 号","open":true,"version":1}`)
	call(http.StatusNotFound, http.MethodDelete, "/2", "")
	call(http.StatusNoContent, http.MethodDelete, "/1", "")
	entries, err := audit.List(t.Context(), db, audit.Filter{Subject: "store 1"})
	require.NoError(t, err)
	var got []string
	for _, e := range entries {
		var d struct{ Before, After struct{ Name string } }
		require.NoError(t, json.Unmarshal(e.Detail, &d))
		got = append(got, e.Action+" "+d.Before.Name+">"+d.After.Name)
	}
	require.Equal(t, "audited", got, []string{"store.delete 老店>", "store.edit 旗舰店>老店", "store.create >旗舰店"})
}
