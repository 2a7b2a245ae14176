package funnel

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"stampede/platform/watch/alarm"
	"stampede/platform/watch/tally"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/internal/wire"
	"stampede/seckill/plan"
)

// screen is a page that follows a war room: it keeps the points as the document of the
// API says.
type screen struct {
	warRoomView
	points map[string]int64 // attempts by time
}

// see applies an event.
func (s *screen) see(t *testing.T, event []byte) {
	t.Helper()
	s.warRoomView = warRoomView{}
	if err := json.Unmarshal(event, &s.warRoomView); err != nil {
		t.Fatalf("%s: %v", event, err)
	}
	if s.Curve.Whole || s.points == nil {
		s.points = map[string]int64{}
	}
	for _, p := range s.Curve.Points {
		s.points[time.Time(p.At).Format(time.RFC3339)] = p.Answers["queued"] + p.Answers["sold-out"]
	}
	for at := range s.points {
		if at < time.Time(s.Curve.From).UTC().Format(time.RFC3339) {
			delete(s.points, at)
		}
	}
}

// A page that follows has the same curve as one that is loaded later, whatever arrives
// meanwhile, and both have the figures of every instance.
func TestWarRoomIsTheSameAfterAReload(t *testing.T) {
	t.Parallel()
	d := setup(t)
	s := d.Publish(-time.Minute)
	item := s.StockItem(t, false)
	id := item.ActivityID
	require.NoError(t, d.Stock.Load(t.Context(), item.ID))
	now := new(still)
	one, two := tally.New(d.DB, now, slog.New(slog.DiscardHandler)), tally.New(d.DB, now, slog.New(slog.DiscardHandler))
	count := func(stage, code string, n int64, late ...time.Duration) {
		t.Helper()
		now.at = d.Clock.Now() // both count in the same second
		for _, l := range late {
			now.at = now.at.Add(-l)
		}
		one.Count(item.ID, stage, code, n)
		two.Count(item.ID, stage, code, n)
		for _, b := range []*tally.Board{one, two} {
			require.NoError(t, b.Fold(t.Context()))
		}
	}
	following := &room{Service: d.svc, id: id}
	var page, reloaded screen
	look := func() {
		t.Helper()
		followed, err := following.look(t.Context())
		require.NoError(t, err)
		page.see(t, followed.change)
		fresh := d.Do(http.StatusOK, http.MethodGet, "/api/v1/admin/activities/"+s.Activity+"/war-room", nil)
		reloaded = screen{}
		reloaded.see(t, fresh.Raw)
		if diff := cmp.Diff(reloaded.points, page.points); diff != "" || cmp.Diff(reloaded.Busiest, page.Busiest, sameMoment) != "" || reloaded.Curve.Step != page.Curve.Step {
			t.Errorf("the page that follows (+) is not the one that was loaded (-), in steps of %d s: %s\n%v, %v", page.Curve.Step, diff, reloaded.Busiest, page.Busiest)
		}
	}
	look()
	if !page.Curve.Whole || len(page.points) != 0 || page.Busiest != nil || page.WaitP99 != nil || page.Alarms == nil {
		t.Errorf("before the first attempt: %+v", page.warRoomView)
	}
	count("answers", "sold-out", 20)
	count("waits", "50ms", 20)
	look()
	d.Clock.Advance(3 * time.Second)
	look()
	count("answers", "queued", 3)
	count("orders", "paid", 2)
	count("visible", "200ms", 3)
	require.NoError(t, alarm.BooksBroken.Raise(t.Context(), d.DB, "item 1", "off by 1"))
	look()
	if len(page.Curve.Points) == 0 || len(page.points) < 2 || page.Attempts != 46 || page.Answers["sold-out"] != 40 || page.Busiest.Attempts != 40 ||
		page.PaymentsPerMinute != 4 || *page.WaitP99 != 50 || *page.VisibleP99 != 200 || len(page.Items) != 1 || page.Items[0].Books.Available != 10 || *page.Difference != 0 ||
		len(page.Alarms) != 1 || page.Alarms[0].NextAction == "" {
		t.Errorf("during the rush: %+v", page.warRoomView)
	}
	count("answers", "sold-out", 2, 5*time.Second) // an instance stores them late
	look()
	d.Clock.Advance(30 * time.Second)
	look()
	count("answers", "sold-out", 1)
	look()
	if page.Curve.Whole || len(page.Curve.Points) != 1 {
		t.Errorf("an event has more than is new: %+v", page.Curve)
	}
	d.Clock.Advance(11 * time.Minute) // more than 600 seconds: longer steps
	look()
	if !page.Curve.Whole || page.Curve.Step != 2 {
		t.Errorf("after 600 s: %+v", page.Curve)
	}
	d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/items/"+s.Item+"/pause", nil)
	look()
	if !page.Items[0].Paused || page.PaymentsPerMinute != 0 {
		t.Errorf("paused: %+v", page.warRoomView)
	}
	states, err := d.Redis.Keys(t.Context(), "*:state").Result()
	if err != nil || len(states) != 1 || d.Redis.Set(t.Context(), states[0], "not a hash", 0).Err() != nil {
		t.Fatalf("%v: %v", states, err)
	}
	look()
	if page.Difference != nil || page.Items[0].Books != nil || page.Attempts != 52 {
		t.Errorf("without Redis: %+v", page.warRoomView)
	}
}

// The books of sixty items are as many questions to Postgres and to Redis as those of
// one. The plan is read again only by the look after a change, which shows it.
func TestWarRoomReadsBooksOfAllItemsAtOnce(t *testing.T) {
	t.Parallel()
	var asked *atomic.Int64
	called := new(seckilltest.RedisCalls)
	d := setup(t, func(d *instance, deps *Deps) {
		client := redis.NewClient(d.Redis.Options())
		client.AddHook(called)
		t.Cleanup(func() { _ = client.Close() })
		watched := *d.Bundle
		watched.DB, asked = seckilltest.Statements(t, d.DB)
		watched.Redis = client
		deps.DB, deps.Stock = watched.DB, watched.NewStock()
	})
	var questions [2][2]int64
	for i, items := range []int{1, 60} {
		s := d.Publish(-time.Minute, func(_, session, item map[string]any) {
			var more []any
			for n := range items - 1 {
				other := maps.Clone(item)
				other["sku"], other["stock"] = fmt.Sprint("phone-", n), 20+n
				more = append(more, other)
			}
			session["items"] = more
		})
		require.NoError(t, d.Stock.Load(t.Context(), s.StockItem(t, false).ID))
		following := &room{Service: d.svc, id: s.StockItem(t, false).ActivityID}
		look := func() (warRoomView, [2]int64) {
			t.Helper()
			statements, commands := asked.Load(), called.N.Load()
			seen, err := following.look(t.Context())
			require.NoError(t, err)
			return seen.whole, [2]int64{asked.Load() - statements, called.N.Load() - commands}
		}
		look()
		seen, quiet := look()
		questions[i] = quiet
		if seen.Difference == nil || *seen.Difference != 0 || len(seen.Items) != items {
			t.Fatalf("%d items: %+v", items, seen)
		}
		for n, item := range seen.Items {
			first := item.ID.String() == s.Item
			if want := int64(19 + n); item.Books == nil || !first && item.Books.Available != want || item.Loaded != first {
				t.Errorf("item %d of %d: %+v", n, items, item)
			}
		}
		d.Do(http.StatusOK, http.MethodPost, "/api/v1/admin/items/"+s.Item+"/pause", nil)
		seen, changed := look()
		if paused := slices.ContainsFunc(seen.Items, func(i warRoomItem) bool { return i.Paused }); !paused || changed[0] <= quiet[0] {
			t.Errorf("paused: %v, with %d statements, and %d before", paused, changed[0], quiet[0])
		}
	}
	if questions[0] != questions[1] || questions[0][1] != 1 {
		t.Errorf("a look at one item is %d statements and %d commands, at sixty %d and %d",
			questions[0][0], questions[0][1], questions[1][0], questions[1][1])
	}
}

// Who presses before the curve begins is counted, and on no page's curve.
func TestWarRoomCurveBeginsBeforeTheOpening(t *testing.T) {
	t.Parallel()
	d := setup(t)
	s := d.Publish(10 * time.Minute)
	item := s.StockItem(t, false)
	id := item.ActivityID
	board := tally.New(d.DB, &still{d.Clock.Now()}, slog.New(slog.DiscardHandler))
	following := &room{Service: d.svc, id: id}
	for look := range 3 {
		board.Count(item.ID, "answers", "not-open", 5)
		require.NoError(t, board.Fold(t.Context()))
		d.Clock.Advance(time.Second)
		if seen, err := following.look(t.Context()); err != nil || len(seen.whole.Curve.Points) > 0 || seen.whole.Busiest != nil || seen.whole.Attempts != int64(5*(look+1)) {
			t.Errorf("look %d: %+v, %v", look, seen.whole, err)
		}
	}
}

// still is a clock that shows what it was set to.
type still struct{ at time.Time }

func (c *still) Now() time.Time { return c.at }

var sameMoment = cmp.Comparer(func(a, b warRoomSecond) bool {
	return time.Time(a.At).Equal(time.Time(b.At)) && a.Attempts == b.Attempts
})

// Two who follow an activity are sent the same readings, from the whole on, and both
// streams end with the server.
func TestWarRoomIsReadOnceForAllWhoFollow(t *testing.T) {
	t.Parallel()
	d := setup(t)
	s := d.Publish(-time.Minute)
	server := httptest.NewServer(d.Router)
	defer server.Close()
	path := server.URL + "/api/v1/admin/activities/" + s.Activity + "/war-room/live"
	var events [2]*bufio.Scanner
	for i := range events {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+d.Tokens["viewer"])
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%d %v", resp.StatusCode, resp.Header)
		}
		events[i] = bufio.NewScanner(resp.Body)
	}
	next := func(i int) (seen screen) {
		t.Helper()
		for events[i].Scan() {
			if data, ok := strings.CutPrefix(events[i].Text(), "data: "); ok {
				seen.see(t, []byte(data))
				return seen
			}
		}
		t.Fatalf("stream %d has ended: %v", i, events[i].Err())
		return seen
	}
	first, second := next(0), next(1)
	if first.At != second.At || !second.Curve.Whole || second.Name != "Sale" || len(second.Items) != 1 {
		t.Errorf("two readings for two followers: %v, %v", first, second)
	}
	require.NoError(t, d.svc.EndStreams(t.Context()))
	for i := range events {
		for events[i].Scan() {
		}
		require.NoError(t, events[i].Err())
	}
	for _, missing := range []string{"activities/99999/war-room", "activities/99999/war-room/live"} {
		d.As("viewer", http.MethodGet, "/api/v1/admin/"+missing, nil).Want(t, missing, http.StatusNotFound, "")
	}
}

// The sessions on the screen are those that are open, or else the nearest.
func TestNearestSessions(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(opens, closes time.Duration) plan.SessionView {
		return plan.SessionView{OpensAt: wire.Time(now.Add(opens)), ClosesAt: wire.Time(now.Add(closes))}
	}
	for name, c := range map[string]struct {
		sessions []plan.SessionView
		want     []int
	}{
		"none":               {},
		"open, also two":     {[]plan.SessionView{at(-time.Hour, time.Hour), at(time.Minute, time.Hour), at(-time.Minute, time.Hour)}, []int{0, 2}},
		"over since shortly": {[]plan.SessionView{at(-time.Hour, -time.Minute), at(time.Hour, 2*time.Hour)}, []int{0}},
		"soon":               {[]plan.SessionView{at(-3*time.Hour, -time.Hour), at(time.Minute, 2*time.Hour)}, []int{1}},
	} {
		shown := nearest(c.sessions, now)
		var got []int
		for _, s := range shown {
			for i := range c.sessions {
				if s.OpensAt == c.sessions[i].OpensAt {
					got = append(got, i)
				}
			}
		}
		require.Equal(t, name, got, c.want)
	}
}

// counted is a source whose readings are numbered.
func counted(readings *atomic.Int64) func() source[string] {
	return func() source[string] {
		return func(context.Context) (reading[string], error) {
			n := strconv.FormatInt(readings.Add(1), 10)
			return reading[string]{"whole " + n, []byte("change " + n)}, nil
		}
	}
}

// Two who follow the same cost one reading a second, and none once both have left.
func TestFollowersShareReadings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := follows[string]{log: slog.New(slog.DiscardHandler)}
		var readings, others atomic.Int64
		const this, that = 1, 2
		one, err := all.join(t.Context(), this, counted(&readings))
		require.NoError(t, err)
		leaving, cancel := context.WithCancel(t.Context())
		two, err := all.join(leaving, this, counted(&readings))
		if err != nil || two != one || readings.Load() != 1 {
			t.Fatalf("%v after %d readings", err, readings.Load())
		}
		other, err := all.join(t.Context(), that, counted(&others))
		if err != nil || other == one {
			t.Fatalf("another subject: %v", err)
		}
		_, _, renewed, _ := one.now()
		<-renewed
		synctest.Wait()
		if latest, number, _, _ := two.now(); number != 2 || readings.Load() != 2 || string(latest.change) != "change 2" || latest.whole != "whole 2" {
			t.Errorf("reading %d of %d: %s", number, readings.Load(), latest.change)
		}
		cancel()
		all.leave(this, one)      // the first leaves, the second stays
		time.Sleep(2 * liveEvery) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Equal(t, "readings for the one who stayed", readings.Load(), 4)
		all.leave(this, two)
		all.leave(that, other)
		time.Sleep(2 * liveEvery) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		if readings.Load() != 4 || len(all.of) != 0 {
			t.Errorf("%d readings and %d subjects after the last has left", readings.Load(), len(all.of))
		}
	})
}

// A first reading that fails is the error of those who wait for it, and tried by the next;
// a later one, here a panic, is left out.
func TestFollowersOfAFailedReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := follows[string]{log: slog.New(slog.DiscardHandler)}
		const this = 1
		broken := errors.New("no such thing")
		var readings atomic.Int64
		if _, err := all.join(t.Context(), this, func() source[string] {
			return func(context.Context) (reading[string], error) { return reading[string]{}, broken }
		}); !errors.Is(err, broken) || len(all.of) != 0 {
			t.Fatalf("%v, %d subjects", err, len(all.of))
		}
		one, err := all.join(t.Context(), this, func() source[string] {
			return func(ctx context.Context) (reading[string], error) {
				if readings.Add(1) == 2 {
					panic(broken)
				}
				return counted(new(atomic.Int64))()(ctx)
			}
		})
		require.NoError(t, err)
		time.Sleep(2*liveEvery + liveEvery/2) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		if _, number, _, err := one.now(); number != 2 || readings.Load() != 3 || err != nil {
			t.Errorf("%d of %d readings: %v", number, readings.Load(), err)
		}
		all.leave(this, one)
	})
}
