package reservation_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
)

// together runs f with 0…n-1 concurrently.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// down is a Redis client whose port is closed.
func down(t *testing.T) redis.UniversalClient {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestAThousandAtOnce(t *testing.T) {
	t.Parallel()
	const requests, users = 1000, 400 // every user sends two or three requests
	for _, c := range []struct {
		name  string
		plan  []edit
		redis bool
		want  int
	}{
		{"without a cap", nil, true, users},
		{"cap of 5.57 times the stock", []edit{capped(5.57)}, true, 55},
		{"cap, Redis down", []edit{capped(5.57)}, false, 55},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, c.plan...)
			var rdb redis.UniversalClient = s.rdb
			if !c.redis {
				rdb = down(t)
			}
			instances := []*desk{s.instance(s.db, rdb), s.instance(s.db, rdb), s.instance(s.db, rdb)}
			replies := make([]reply, requests)
			together(requests, func(i int) {
				// If the machine is too busy for a batch's timeout, users get "try again" and do.
				for range 20 {
					replies[i] = instances[i%len(instances)].as(auth.Shopper, int64(i%users+1), http.MethodPost, s.route("reservation"), nil)
					if replies[i].Status != http.StatusServiceUnavailable {
						break
					}
				}
			})

			told := map[int]string{} // user → the answer, which is the same each time
			won := 0
			for i, r := range replies {
				answer := r.Text("reserved_at")
				if r.Status == http.StatusConflict {
					answer = r.Text("code")
				} else {
					r.want(t, http.StatusCreated, "")
				}
				before, again := told[i%users]
				if again && before != answer {
					t.Errorf("user %d got %s and %s", i%users+1, before, answer)
				}
				if told[i%users] = answer; !again && answer != "reservation-full" {
					won++
				}
			}
			if won != c.want || s.rows() != c.want {
				t.Errorf("%d users hold a reservation by their answers, %d by Postgres; want %d", won, s.rows(), c.want)
			}
			if c.redis {
				if r := s.as(auth.Shopper, 1, http.MethodGet, s.route("detail"), nil); r.Doc["reserved"] != float64(c.want) {
					t.Errorf("shoppers read of %v reservations, want %d: %s", r.Doc["reserved"], c.want, r.Raw)
				}
			}
			counters := 0
			if c.want != users {
				counters = c.want
			}
			require.Equal(t, "the counters", s.number(`SELECT coalesce(sum(taken), 0) FROM seckill.reservation_counts`), counters)
		})
	}
}

func TestOneReservationPerUser(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.shopper(7, http.MethodGet, "reservation").want(t, http.StatusNotFound, "not-found")
	first := s.reserve(7).want(t, http.StatusCreated, "")
	if first.Text("item_id") == "" || first.Text("opens_at") == "" || first.Text("reserved_at") == "" {
		t.Errorf("the answer lacks something: %s", first.Raw)
	}
	for _, again := range []reply{s.reserve(7).want(t, http.StatusCreated, ""), s.shopper(7, http.MethodGet, "reservation").want(t, http.StatusOK, "")} {
		require.Equal(t, "the answer again", string(again.Raw), string(first.Raw))
	}
	s.shopper(8, http.MethodGet, "reservation").want(t, http.StatusNotFound, "not-found")
	s.as(auth.Shopper, 7, http.MethodPost, "/api/v1/items/999/reservation", nil).want(t, http.StatusNotFound, "not-found")
}

func TestTheCap(t *testing.T) {
	t.Parallel()
	s := open(t, capped(1))
	for user := range int64(10) {
		s.reserve(user+1).want(t, http.StatusCreated, "")
	}
	s.reserve(11).want(t, http.StatusConflict, "reservation-full")
	// From the time on when paths are issued, a place that became free would yield a second path.
	s.path(1).want(t, http.StatusOK, "")
	s.shopper(1, http.MethodDelete, "reservation").want(t, http.StatusGone, "reservation-closed")
	s.reserve(11).want(t, http.StatusConflict, "reservation-full")

	s.opening(time.Hour)
	s.shopper(3, http.MethodDelete, "reservation").want(t, http.StatusNoContent, "")
	s.shopper(3, http.MethodDelete, "reservation").want(t, http.StatusNoContent, "")
	s.reserve(11).want(t, http.StatusCreated, "")
	s.reserve(3).want(t, http.StatusConflict, "reservation-full")
	s.reserve(1).want(t, http.StatusCreated, "") // already had one

	// More stock means more places; a lower cap revokes no reservation.
	s.sql(`UPDATE seckill.items SET stock = 11`)
	s.reserve(3).want(t, http.StatusCreated, "")
	s.reserve(12).want(t, http.StatusConflict, "reservation-full")
	s.sql(`UPDATE seckill.items SET stock = 5`)
	s.shopper(3, http.MethodDelete, "reservation").want(t, http.StatusNoContent, "")
	s.reserve(3).want(t, http.StatusConflict, "reservation-full")
	require.Equal(t, "reservations held", s.rows(), 10)

	// The cap is exact in decimals: 2.3 × 100 is 229.999… in binary fractions.
	s.sql(`UPDATE seckill.items SET stock = 100`)
	s.sql(`UPDATE seckill.sessions SET reservation_cap = 2.3`)
	s.sql(`INSERT INTO seckill.reservations (item_id, user_id) SELECT $1, 1000 + u FROM generate_series(1, 219) u`, s.item.ID)
	s.sql(`UPDATE seckill.reservation_counts SET taken = 229, places = 230`)
	s.reserve(200).want(t, http.StatusCreated, "")
	s.reserve(201).want(t, http.StatusConflict, "reservation-full")
	s.sql(`UPDATE seckill.items SET stock = 0, unlimited = true`)
	s.reserve(201).want(t, http.StatusCreated, "")

	// A cap that is introduced counts the existing reservations.
	s.sql(`DELETE FROM seckill.reservation_counts`)
	s.sql(`UPDATE seckill.items SET stock = 232, unlimited = false`)
	s.sql(`UPDATE seckill.sessions SET reservation_cap = 1`)
	s.reserve(202).want(t, http.StatusCreated, "")
	s.reserve(203).want(t, http.StatusConflict, "reservation-full")
}

// TestTheWindowIsPostgres varies the instance's clock: within its known error,
// Postgres decides.
func TestTheWindowIsPostgres(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	s := open(t)
	for i, c := range []struct {
		name        string
		from, until time.Duration // of the window, by Postgres
		clock       time.Duration // the instance's, against Postgres
		status      int
		code        string
	}{
		{"open", -minute, minute, 0, http.StatusCreated, ""},
		{"just opened, clock slow", -100 * time.Millisecond, minute, -800 * time.Millisecond, http.StatusCreated, ""},
		{"about to close, clock fast", -minute, 20 * time.Second, 20 * time.Second, http.StatusCreated, ""},
		{"not open, clock says so too", 30 * time.Second, minute, 0, http.StatusTooEarly, "reservation-not-open"},
		{"not open, clock fast", 20 * time.Second, minute, 30 * time.Second, http.StatusTooEarly, "reservation-not-open"},
		{"closed, clock says so too", -2 * minute, -minute, 0, http.StatusGone, "reservation-closed"},
		{"closed, clock slow", -2 * minute, -20 * time.Second, -30 * time.Second, http.StatusGone, "reservation-closed"},
	} {
		user := int64(i + 1)
		s.window(c.from, c.until)
		s.clock.Set(c.clock)
		r := s.reserve(user)
		if r.Status != c.status || r.Text("code") != c.code {
			t.Errorf("%s: %d %s, want %d %s", c.name, r.Status, r.Text("code"), c.status, c.code)
		}
		held := s.number(`SELECT count(*) FROM seckill.reservations WHERE user_id = $1`, user)
		require.Equal(t, c.name+": reserved", held == 1, c.code == "")
	}
}

func TestAfterTheWindowNothingChanges(t *testing.T) {
	t.Parallel()
	s := open(t)
	first := s.reserve(7).want(t, http.StatusCreated, "")
	for _, closed := range []time.Duration{-500 * time.Millisecond, -time.Minute} {
		s.window(-time.Hour, closed)
		again := s.reserve(7).want(t, http.StatusCreated, "")
		require.Equal(t, "the answer again", string(again.Raw), string(first.Raw))
		s.reserve(8).want(t, http.StatusGone, "reservation-closed")
		s.shopper(7, http.MethodDelete, "reservation").want(t, http.StatusGone, "reservation-closed")
		s.shopper(7, http.MethodGet, "reservation").want(t, http.StatusOK, "")
	}
}

func TestItemsThatCannotBeReserved(t *testing.T) {
	t.Parallel()
	s := open(t, func(_, session, _ map[string]any) {
		delete(session, "reservation_opens_at")
		delete(session, "reservation_closes_at")
	})
	s.reserve(7).want(t, http.StatusConflict, "no-reservation")
	s.shopper(7, http.MethodDelete, "reservation").want(t, http.StatusConflict, "no-reservation")

	// Postgres knows a change that the instance does not know yet.
	ended := open(t, capped(2))
	ended.reserve(6).want(t, http.StatusCreated, "")
	ended.sql(`UPDATE seckill.activities SET status = 'terminated'`)
	ended.reserve(7).want(t, http.StatusGone, "ended")
	ended.window(-time.Hour, time.Minute) // and now the instance has
	ended.reserve(7).want(t, http.StatusGone, "ended")
	ended.sql(`DELETE FROM seckill.items`)
	ended.sql(`UPDATE seckill.activities SET status = 'running'`)
	ended.reserve(7).want(t, http.StatusGone, "ended")
	require.Equal(t, "rows that a deleted item leaves", ended.rows()+ended.number(`SELECT count(*) FROM seckill.reservation_counts`), 0)
}

func TestOneProofForOneReservation(t *testing.T) {
	t.Parallel()
	s := open(t, func(activity, _, _ map[string]any) { activity["human_check"] = "pow" })
	s.reserve(7).want(t, http.StatusForbidden, "human-check-required")
	replies := make([]reply, 20)
	together(len(replies), func(i int) { replies[i] = s.reserve(7, "Human-Check", "pow:good") })
	for _, r := range replies {
		r.want(t, http.StatusCreated, "")
	}
	s.reserve(7).want(t, http.StatusCreated, "")
	s.reserve(8, "Human-Check", "pow:good").want(t, http.StatusForbidden, "human-check-failed")
	require.Equal(t, "checks: without a proof, with it, and with a used one", s.human.asked, 3)
	last := s.human.last
	require.Equal(t, "what it was made for", fmt.Sprint(last.Purpose, " ", last.User, " ", last.Item), fmt.Sprint("reservation 8 ", s.item.ID))
	s.proved(7, true)
	s.proved(8, false)
}

func TestOperatorsSeeReservations(t *testing.T) {
	t.Parallel()
	s := open(t)
	item := "/api/v1/admin/items/" + fmt.Sprint(s.item.ID)
	for user := range int64(5) {
		s.reserve(user+101).want(t, http.StatusCreated, "")
	}
	view := s.as(auth.Viewer, 1, http.MethodGet, item, nil).want(t, http.StatusOK, "")
	require.Equal(t, "reservations of the item", view.Doc["reservations"], 5.0)
	list := s.as(auth.Viewer, 1, http.MethodGet, "/api/v1/admin/items", nil).want(t, http.StatusOK, "")
	require.Equal(t, "reservations in the list", list.Doc["data"].([]any)[0].(map[string]any)["reservations"], 5.0)
	var users []string
	cursor := ""
	for range 3 {
		p := s.as(auth.Viewer, 1, http.MethodGet, item+"/reservations?limit=2&cursor="+cursor, nil).want(t, http.StatusOK, "")
		for _, row := range p.Doc["data"].([]any) {
			users = append(users, row.(map[string]any)["user_id"].(string))
		}
		cursor = p.Text("next_cursor")
	}
	if got := fmt.Sprint(users); got != "[101 102 103 104 105]" || cursor != "" {
		t.Errorf("the pages list %s, and then %q", got, cursor)
	}
	s.as(auth.Shopper, 101, http.MethodGet, item+"/reservations", nil).want(t, http.StatusForbidden, "forbidden")
	s.as(auth.Viewer, 1, http.MethodGet, "/api/v1/admin/items/999/reservations", nil).want(t, http.StatusNotFound, "not-found")
}
