package browse

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/platform/workshop/require"
	"stampede/seckill/internal/wire"
)

// walk pages through the list and returns the ids in the order in which they were
// shown; it calls between after each page.
func (w *window) walk(query string, between func()) (seen []string) {
	w.T.Helper()
	for cursor, path := "-", "/api/v1/sessions?"+query; cursor != ""; path = "/api/v1/sessions?" + query + "&cursor=" + cursor {
		r := w.ok(path)
		for _, row := range r.Doc["data"].([]any) {
			seen = append(seen, row.(map[string]any)["id"].(string))
		}
		cursor = r.Text("next_cursor")
		between()
	}
	return seen
}

// lasting moves a sale's end to some time from now.
func lasting(d time.Duration) func(*Activity) {
	return func(a *Activity) { a.Sessions[0].ClosesAt = wire.Time(time.Now().Add(d)) }
}

// TestSessionsOnSaleComeFirst checks the order of the parts: on sale, upcoming,
// ended.
func TestSessionsOnSaleComeFirst(t *testing.T) {
	t.Parallel()
	w := setup(t)
	terminated := w.publish(-3*time.Hour, lasting(2*time.Hour), over)
	late, soon := w.publish(3*time.Hour), w.publish(2*time.Hour)
	paused := func(a *Activity) { a.Sessions[0].Paused = true }
	long, short := w.publish(-2*time.Hour, lasting(50*time.Hour), paused), w.publish(-time.Minute)
	ended := w.publish(-61*time.Minute, lasting(time.Minute))
	w.clock.Advance(2 * time.Minute)
	for query, want := range map[string][]string{
		"limit=2":                 {short.session, long.session, soon.session, late.session, terminated.session, ended.session},
		"limit=1&status=running":  {short.session, long.session},
		"limit=1&status=upcoming": {soon.session, late.session},
		"limit=1&status=ended":    {terminated.session, ended.session},
	} {
		require.Equal(t, query, w.walk(query, func() {}), want)
	}
	w.gives("/api/v1/sessions?status=open", http.StatusUnprocessableEntity, "query.status")
	first := w.get("/api/v1/sessions?limit=1")
	w.clock.Advance(time.Second)
	again := w.get("/api/v1/sessions?limit=1", "If-None-Match", first.Header.Get("ETag"))
	require.Equal(t, "status a second later, when nothing has changed", again.Status, http.StatusNotModified)
}

// TestOpeningBetweenTwoPagesLosesNoSession checks that a session that moves to
// the top during a walk is still shown at its place on the walk's first page.
func TestOpeningBetweenTwoPagesLosesNoSession(t *testing.T) {
	t.Parallel()
	w := setup(t)
	open, soon, late := w.publish(-time.Minute), w.publish(10*time.Minute), w.publish(20*time.Minute)
	seen := w.walk("limit=1", func() {
		w.clock.Advance(15 * time.Minute)
		w.forget()
	})
	require.Equal(t, "shown", seen, []string{open.session, soon.session, late.session})
}

// TestTheOrderIsTotal checks, on random sessions and moments, that each session
// has one place, and that a walk from any place shows exactly the sessions from
// there on.
func TestTheOrderIsTotal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		start := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
		minute := func(label string) wire.Time {
			return wire.Time(start.Add(time.Duration(rapid.IntRange(0, 6).Draw(t, label)) * time.Minute))
		}
		all := make([]Session, rapid.IntRange(0, 12).Draw(t, "sessions"))
		for i := range all {
			all[i] = Session{ID: wire.ID(i + 1), OpensAt: minute("opens"), Over: rapid.Bool().Draw(t, "over")}
			all[i].ClosesAt = wire.Time(time.Time(all[i].OpensAt).Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "open")) * time.Minute))
		}
		now := time.Time(minute("now")).Add(30 * time.Second)
		from, err := readPlace("")
		require.NoError(t, err)
		order := orderSessions(all)
		from.at = order.lastTurn(now)
		var shown []wire.ID
		var places []place
		for s, at := range order.from(from) {
			if want := placeOf(s, now.UnixMilli()).part; at.part != want {
				t.Fatalf("session %d is in part %d, want %d", s.ID, at.part, want)
			}
			shown, places = append(shown, s.ID), append(places, at)
		}
		if len(shown) != len(all) || !slices.IsSortedFunc(places, place.compare) {
			t.Fatalf("%d of %d sessions in the order %v", len(shown), len(all), places)
		}
		for i, p := range places {
			p, err := readPlace(p.cursor())
			require.NoError(t, err)
			var rest []wire.ID
			for s := range order.from(p) {
				rest = append(rest, s.ID)
			}
			require.Equal(t, fmt.Sprint("from place ", i, " on"), rest, shown[i:])
		}
	})
}

// TestAPageSortsNothing checks that what every shopper's request for the list does
// with the sessions takes no memory, as copying or sorting them would.
func TestAPageSortsNothing(t *testing.T) {
	now, all := time.Now(), make([]Session, listMost)
	for i := range all {
		opens := now.Add(time.Duration(i-listMost/2) * time.Minute)
		all[i] = Session{ID: wire.ID(i + 1), OpensAt: wire.Time(opens), ClosesAt: wire.Time(opens.Add(time.Hour))}
	}
	order, shown := orderSessions(all), 0
	allocated := testing.AllocsPerRun(10, func() {
		shown = 0
		for range order.from(place{at: order.lastTurn(now), key: math.MinInt64}) {
			shown++
		}
	})
	require.Equal(t, "sessions and allocations", []int{shown, int(allocated)}, []int{listMost, 0})
}

// FuzzPlace checks that a cursor decodes to the place it was encoded from, or
// is refused.
func FuzzPlace(f *testing.F) {
	f.Add("", int64(0), uint8(0), int64(0), int64(1))
	f.Add("MTIgMSAzNCA1", int64(-1), partEnded, int64(-1<<63), int64(1<<62)) // 12 1 34 5
	f.Add("MTIgOSAzNCA1", int64(1), uint8(9), int64(1), int64(1))            // 12 9 34 5
	f.Fuzz(func(t *testing.T, cursor string, at int64, part uint8, key, id int64) {
		if p, err := readPlace(cursor); err == nil && cursor != "" {
			if again, err := readPlace(p.cursor()); err != nil || again != p {
				t.Errorf("%q: %v, then %v %v", cursor, p, again, err)
			}
		}
		want := place{at, part, key, id}
		if p, err := readPlace(want.cursor()); (err == nil) != (part <= partEnded) || err == nil && p != want {
			t.Errorf("%v: %v %v", want, p, err)
		}
	})
}

// FuzzParseView checks that any content of Redis is read or refused without a
// panic.
func FuzzParseView(f *testing.F) {
	f.Add(`{"id":"1","opens_at":"2026-11-11T00:00:00Z"}`, `{"id":"2"}`)
	f.Add(`{}`, `[]`)
	f.Fuzz(func(t *testing.T, header, item string) {
		v, ok, err := parseView(map[string]string{viewSessionField: header, viewItemPrefix + "2": item})
		if err == nil && (!ok || len(v.Items) != 1) {
			t.Errorf("%q %q: %v with %d items", header, item, ok, len(v.Items))
		}
	})
}
