package demo

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
)

// TestRestartKeepsPlannedSales checks that the sales of an earlier process are shown,
// and planned no second time, if they are of the same schedule.
func TestRestartKeepsPlannedSales(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	sale := func(id, name string, opens, closes time.Time) object {
		return object{"id": id, "name": name, "sessions": []object{{"id": id, "opens_at": opens, "closes_at": closes, "items": []object{{"id": id}}}}}
	}
	planned := map[string]object{
		"next":                 sale("next", "Demo 20:33", at(33, 0), at(35, 59)),
		"open":                 sale("open", "Demo 20:30", at(30, 0), at(32, 59)),
		"of an hour's rhythm":  sale("of an hour's rhythm", "Demo 20:00", at(0, 0), at(59, 59)),
		"between two openings": sale("between two openings", "Demo 20:31", at(31, 0), at(33, 59)),
		"of rush":              sale("of rush", "Demo rush", at(33, 0), at(35, 59)),
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch one, listed := planned[path.Base(r.URL.Path)], r.URL.Query().Get("status"); {
		case one != nil:
			answer(w, one)
		case listed == "scheduled":
			answer(w, object{"data": slices.Collect(maps.Values(planned))})
		default:
			answer(w, object{"data": []object{}})
		}
	}))
	t.Cleanup(srv.Close)
	s := &Service{deps: Deps{BaseURL: srv.URL, Every: 3 * time.Minute, Tokens: auth.NewTokens([]byte("a signing key of thirty-two bytes"), time.Now)}}
	for range 2 { // the worker is restarted
		require.NoError(t, s.takeOver(t.Context()))
	}
	var kept []string
	for _, x := range s.sales {
		kept = append(kept, x.ItemID)
	}
	require.Equal(t, "sales kept", kept, []string{"open", "next"})
}

func at(minute, second int) time.Time { return time.Date(2026, 5, 1, 20, minute, second, 0, time.UTC) }
