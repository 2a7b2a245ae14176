package reservation_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/seckill/rush"
)

// closed is how long ago settled's reservations closed: long enough for its
// answers to be cached.
const closed = time.Minute

// settled is a shop with reservations of the users 1 … n whose window has closed.
func settled(t testing.TB, n int) *shop {
	t.Helper()
	s := open(t)
	s.sql(`INSERT INTO seckill.reservations (item_id, user_id, human_ok) SELECT $1, u, u % 2 = 0 FROM generate_series(1, $2::bigint) u`, s.item.ID, n)
	s.window(-time.Hour, -closed)
	return s
}

// check runs an instance's door check for a user.
func (s *shop) check(d *desk, user int64) error {
	return d.svc.Check(context.Background(), &rush.Applicant{User: user, Item: s.item, Now: s.clock.Now()})
}

// proved requires whether a user has proved to be human.
func (s *shop) proved(user int64, want bool) {
	s.t.Helper()
	got, err := s.svc.Proved(s.t.Context(), user, s.item.ID)
	if err != nil || got != want {
		s.t.Fatalf("proof of user %d: %v %v", user, got, err)
	}
}

func code(err error) string {
	if err == nil {
		return ""
	}
	return fault.From(err).Code
}

func TestPathsAreForThoseWhoReserved(t *testing.T) {
	t.Parallel()
	s := open(t)
	r := s.path(7).want(t, http.StatusForbidden, "no-reservation-held")
	if r.Text("reservation_closes_at") == "" || r.Text("title") == "" {
		t.Errorf("while it is open, the answer lacks the closing time: %s", r.Raw)
	}
	s.reserve(7).want(t, http.StatusCreated, "")
	s.path(7).want(t, http.StatusOK, "")
	s.path(8).want(t, http.StatusForbidden, "no-reservation-held")
	s.opening(time.Hour)
	s.shopper(7, http.MethodDelete, "reservation").want(t, http.StatusNoContent, "")
	s.opening(90 * time.Second)
	s.path(7).want(t, http.StatusForbidden, "no-reservation-held")
	s.reserve(7).want(t, http.StatusCreated, "")
	s.window(-time.Hour, -closed)
	for range 2 {
		s.path(7).want(t, http.StatusOK, "")
		if r := s.path(8).want(t, http.StatusForbidden, "no-reservation-held"); r.Text("reservation_closes_at") != "" {
			t.Errorf("a shopper is sent to a closed reservation: %s", r.Raw)
		}
	}
}

// TestAFastClockKeepsNothing uses an instance whose clock says that reservations
// closed long ago.
func TestAFastClockKeepsNothing(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.reserve(7).want(t, http.StatusCreated, "")
	s.clock.Set(10 * time.Minute)
	require.NoError(t, s.check(s.desk, 7))
	s.clock.Set(0)
	s.opening(time.Hour)
	s.shopper(7, http.MethodDelete, "reservation").want(t, http.StatusNoContent, "")
	s.clock.Set(10 * time.Minute)
	require.Equal(t, "of a cancelled reservation", code(s.check(s.desk, 7)), "no-reservation-held")
}

func TestItemsWithoutReservationAreNotLookedUp(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.as(auth.Operator, 1, http.MethodPatch, "/api/v1/admin/sessions/"+s.session, map[string]any{"version": 1, "without_reservation": true}).want(t, http.StatusOK, "")
	s.item = s.sale.Catalogue.Items()[0]
	s.path(7).want(t, http.StatusOK, "")
	s.proved(7, false)
	require.Equal(t, "lookups", s.lookups(t, "postgres")+s.lookups(t, "memory"), 0)
}

// patiently is check with retries while the answer is "Reservations cannot be
// looked up right now": a machine busy with other tests may be too slow for a
// batch's timeout.
func (s *shop) patiently(d *desk, user int64) (err error) {
	for range 20 {
		if err = s.check(d, user); code(err) != "unavailable" {
			break
		}
	}
	return err
}

// TestACrowdAtTheDoor counts the cost of a crowd.
func TestACrowdAtTheDoor(t *testing.T) {
	t.Parallel()
	const holders, crowd = 1000, 2000 // the second half has none
	s := settled(t, holders)
	before := s.queries.Load()
	together(crowd, func(i int) {
		want := ""
		if i >= holders {
			want = "no-reservation-held"
		}
		if err := s.patiently(s.desk, int64(i+1)); code(err) != want {
			t.Errorf("user %d: %v, want %q", i+1, err, want)
		}
	})
	require.Equal(t, "questions that Postgres answered", s.lookups(t, "postgres"), crowd)
	if n := s.queries.Load() - before; n > crowd/10 {
		t.Errorf("%d questions took %d statements", crowd, n)
	}

	// Again: from memory.
	together(holders, func(i int) {
		if err := s.check(s.desk, int64(i+1)); err != nil {
			t.Error(err)
		}
	})
	require.Equal(t, "questions that memory answered again", s.lookups(t, "memory"), holders)
	for user := range int64(holders) {
		s.proved(user+1, (user+1)%2 == 0)
	}
}

func TestTheDoorWithoutPostgres(t *testing.T) {
	t.Parallel()
	s := settled(t, 3)
	gone := s.db.Config()
	gone.ConnConfig.Port = 1
	gone.ConnConfig.Fallbacks = nil
	away, err := pgxpool.NewWithConfig(t.Context(), gone)
	require.NoError(t, err)
	t.Cleanup(away.Close)
	noPostgres := s.instance(away, s.rdb)
	require.Equal(t, "without Postgres", code(s.check(noPostgres, 1)), "unavailable")
	_, err = noPostgres.svc.Proved(t.Context(), 1, s.item.ID)
	require.Equal(t, "without Postgres", code(err), "unavailable")
	require.Equal(t, "lookups counted as nowhere", noPostgres.lookups(t, "nowhere"), 2)
}

// TestAWindowThatIsMovedBeginsAnew opens reservations again after answers were
// cached.
func TestAWindowThatIsMovedBeginsAnew(t *testing.T) {
	t.Parallel()
	s := settled(t, 2)
	for _, user := range []int64{1, 2, 3} {
		_ = s.check(s.desk, user) // 1 and 2 are cached as holders, 3 as none
	}
	s.window(-time.Hour, time.Minute)
	s.opening(time.Hour)
	s.shopper(1, http.MethodDelete, "reservation").want(t, http.StatusNoContent, "")
	s.reserve(3).want(t, http.StatusCreated, "")
	for _, until := range []time.Duration{30 * time.Second, -closed - time.Second} {
		s.window(-time.Hour, until)
		for user, want := range map[int64]string{1: "no-reservation-held", 2: "", 3: ""} {
			for range 2 {
				require.Equal(t, fmt.Sprint("closing in ", until, ", user ", user), code(s.check(s.desk, user)), want)
			}
		}
	}
}
