package tally

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.MainWaiting(m, func() error { return goleak.Find() }) }

// fixed is a clock that stands still until a test sets it.
type fixed struct{ at time.Time }

func (f *fixed) Now() time.Time { return f.at }

var opening = time.Date(2026, 11, 11, 12, 0, 0, 400_000_000, time.UTC)

func board(pool *pgxpool.Pool) (*Board, *fixed) {
	now := &fixed{opening}
	return New(pool, now, slog.New(slog.DiscardHandler)), now
}

func mustFold(t *testing.T, boards ...*Board) {
	t.Helper()
	for _, b := range boards {
		require.NoError(t, b.Fold(t.Context()))
	}
}

func totals(t *testing.T, pool *pgxpool.Pool, subjects ...int64) map[int64]Counts {
	t.Helper()
	all, err := Totals(t.Context(), pool, subjects...)
	require.NoError(t, err)
	return all
}

// Two instances count concurrently, and by sources; nothing is lost or counted twice.
func TestTotalsAndCurveAreTheSumOverInstances(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	one, clock := board(pool)
	two, _ := board(pool)
	var group sync.WaitGroup
	for range 50 {
		for _, b := range []*Board{one, two} {
			group.Go(func() { b.Count(7, "orders", "created", 2); b.Count(8, "pushes", "sent", 1) })
		}
	}
	group.Wait()
	left := int64(3)
	one.From(func(add func(int64, string, string, int64)) { add(7, "answers", "queued", left); left = 0 })
	mustFold(t, one, two)
	clock.at = opening.Add(time.Second)
	one.Count(7, "orders", "paid", 5)
	one.Count(0, "orders", "paid", 5) // no subject
	mustFold(t, one, two)
	mustFold(t, one, two) // nothing new

	want := map[int64]Counts{
		7: {"orders": {"created": 200, "paid": 5}, "answers": {"queued": 3}},
		8: {"pushes": {"sent": 100}},
	}
	require.Equal(t, "totals", totals(t, pool, 7, 8, 9), want)
	got := Sum(want)
	require.Equal(t, "sums", fmt.Sprint(got["orders"]["created"], got.Sum("pushes")), "200 100")
	curve, err := Curve(t.Context(), pool, opening.Add(-time.Minute), opening.Add(time.Minute), time.Second, 7, 8)
	require.NoError(t, err)
	first := opening.Truncate(time.Second)
	require.Equal(t, "curve", curve, []Point{
		{At: first, Counts: Counts{"orders": {"created": 200}, "answers": {"queued": 3}, "pushes": {"sent": 100}}},
		{At: first.Add(time.Second), Counts: Counts{"orders": {"paid": 5}}},
	})
	coarse, err := Curve(t.Context(), pool, opening.Add(-time.Minute), opening.Add(time.Minute), time.Minute, 7)
	require.NoError(t, err)
	require.Equal(t, "paid in minutes", fmt.Sprint(len(coarse), coarse[0].Counts["orders"]["paid"]), "1 5")
}

// The commit's answer is lost, and the same rows are sent again: counted once. What was
// counted meanwhile follows.
func TestFoldRepeatsUnclearRowsOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	b, _ := board(pool)
	b.Count(1, "orders", "created", 4)
	mustFold(t, b)
	b.Count(1, "orders", "created", 6)
	lost := b.collect()
	b.pending = lost
	mustFold(t, b)
	b.pending = lost // stored, but the answer was lost
	b.Count(1, "orders", "created", 1)
	mustFold(t, b, b)
	require.Equal(t, "counted", totals(t, pool, 1)[1]["orders"]["created"], 11)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	b.Count(1, "orders", "created", 2)
	require.Equal(t, "a fold without Postgres succeeds", b.Fold(stopped) == nil, false)
	b.Count(1, "orders", "created", 1)
	require.NoError(t, b.run(stopped)) // the process stops: both folds are stored
	require.Equal(t, "after the stop", totals(t, pool, 1)[1]["orders"]["created"], 14)
}

// No fold counts as a repetition of another when the clock stands still or is set back,
// and each is in the second that the clock shows.
func TestFoldsFollowAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	b, clock := board(pool)
	for _, back := range []time.Duration{0, time.Hour, time.Hour} {
		clock.at = clock.at.Add(-back)
		for range 2 {
			b.Count(1, "orders", "created", 1)
			mustFold(t, b)
		}
	}
	require.Equal(t, "counted", totals(t, pool, 1)[1]["orders"]["created"], 6)
	curve, err := Curve(t.Context(), pool, opening.Add(-24*time.Hour), opening.Add(time.Hour), time.Second, 1)
	if err != nil || len(curve) != 3 || !curve[0].At.Equal(clock.at.Truncate(time.Second)) || curve[0].Counts["orders"]["created"] != 2 {
		t.Errorf("the curve: %v %v", curve, err)
	}
}

// However many subjects a curve has, and however many seconds of one of them, it reaches its end.
func TestCurveReachesItsEnd(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	const seconds = 1500
	first := opening.Truncate(time.Second)
	pgtest.Exec(t, pool, `INSERT INTO platform.tally SELECT 1, $1::timestamptz + n * interval '1 s', gen_random_uuid(), '{"orders": {"created": 1}}'
		FROM generate_series(0, $2::integer - 1) AS n`, first, seconds)
	subjects := make([]int64, 1000)
	for i := range subjects {
		subjects[i] = int64(i + 1)
	}
	curve, err := Curve(t.Context(), pool, first, first.Add(seconds*time.Second), time.Second, subjects...)
	require.NoError(t, err)
	require.Equal(t, "steps, and the last", fmt.Sprint(len(curve), curve[len(curve)-1].At.Sub(first)), "1500 24m59s")
}

// A stage's curve, the busiest second and the last counts are sums over subjects and instances.
func TestStageCurveIsTheSumOverSubjectsAndInstances(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	one, clock := board(pool)
	two, _ := board(pool)
	two.clock = clock
	first := opening.Truncate(10 * time.Second)
	for second, n := range map[int]int64{0: 1, 4: 2, 11: 30} {
		clock.at = first.Add(time.Duration(second) * time.Second)
		for subject, b := range map[int64]*Board{1: one, 2: two, 3: one} {
			b.Count(subject, "answers", "queued", n)
		}
		one.Count(1, "orders", "paid", n)
		mustFold(t, one, two)
	}
	span := Span{From: first, Until: first.Add(12 * time.Second), Subjects: []int64{1, 2}}
	steps, err := StageCurve(t.Context(), pool, "answers", 10*time.Second, span)
	require.NoError(t, err)
	require.Equal(t, "steps", steps, []Point{
		{At: first, Counts: Counts{"answers": {"queued": 6}}}, {At: first.Add(10 * time.Second), Counts: Counts{"answers": {"queued": 60}}},
	})
	at, n, ok, err := BusiestSecond(t.Context(), pool, "answers", span)
	require.Equal(t, "the busiest second", fmt.Sprint(at.Sub(first), n, ok, err), "11s 60 true <nil>")
	span.Until = first.Add(11 * time.Second)
	_, n, _, err = BusiestSecond(t.Context(), pool, "answers", span)
	require.Equal(t, "the busiest second before", fmt.Sprint(n, err), "4 <nil>")
	_, _, ok, err = BusiestSecond(t.Context(), pool, "waits", span)
	require.Equal(t, "of a stage that counted nothing", fmt.Sprint(ok, err), "false <nil>")
	sum, err := Since(t.Context(), pool, first.Add(4*time.Second), 1, 2)
	require.NoError(t, err)
	require.Equal(t, "since", sum, Counts{"answers": {"queued": 64}, "orders": {"paid": 32}})
}

// A gauge is the sum over the instances that still report: a stopped one takes its own
// away, and a killed one's is too old after a while.
func TestGaugesAreTheSumOverLiveInstances(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	var boards [3]*Board
	for i := range boards {
		b, _ := board(pool)
		boards[i] = b
		b.Gauge("sockets", func() int64 { return int64(1 + i) })
		require.NoError(t, b.report(t.Context()))
	}
	expect := func(sum, instances int64) {
		t.Helper()
		all, err := Gauges(t.Context(), pool)
		require.Equal(t, "sockets", fmt.Sprint(all["sockets"], err), fmt.Sprint(Measured{sum, instances}, nil))
	}
	expect(6, 3)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, boards[0].runGauges(stopped))
	expect(5, 2)
	pgtest.Exec(t, pool, "UPDATE platform.tally_gauges SET at = at - interval '16 s' WHERE value = 2")
	expect(3, 1)
	boards[2].Gauge("sockets", func() int64 { return 9 })
	require.NoError(t, boards[2].report(t.Context()))
	expect(9, 1)
}

func TestMomentsKeepFirstAndLast(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	one, _ := board(pool)
	two, _ := board(pool)
	one.Mark(1, "emptied", opening.Add(time.Second))
	one.Mark(1, "emptied", opening)
	two.Mark(1, "emptied", opening.Add(time.Minute))
	two.Mark(2, "emptied", opening.Add(time.Hour))
	mustFold(t, two, one)
	for _, c := range []struct {
		subjects    []int64
		first, last time.Duration
	}{{[]int64{1}, 0, time.Minute}, {[]int64{1, 2}, 0, time.Hour}} {
		got, err := Moments(t.Context(), pool, c.subjects...)
		require.NoError(t, err)
		require.Equal(t, "moments", []time.Time{got["emptied"].First, got["emptied"].Last}, []time.Time{opening.Add(c.first), opening.Add(c.last)})
	}
}

func TestOldSecondsGoAndTotalsStay(t *testing.T) {
	t.Parallel()
	pool := pgtest.DB(t)
	b, clock := board(pool)
	for _, age := range []time.Duration{keepCurves + time.Hour, keepCurves - time.Hour} {
		clock.at = time.Now().Add(-age)
		b.Count(1, "orders", "created", 1)
		mustFold(t, b)
	}
	require.NoError(t, b.tidy(t.Context()))
	curve, err := Curve(t.Context(), pool, time.Now().Add(-2*keepCurves), time.Now(), time.Second, 1)
	require.Equal(t, "seconds left", fmt.Sprint(len(curve), err), "1 <nil>")
	require.Equal(t, "total", totals(t, pool, 1)[1]["orders"]["created"], 2)
}

// A process that serves nothing has no board.
func TestNilBoardCountsNothing(t *testing.T) {
	t.Parallel()
	var b *Board
	b.Count(1, "orders", "created", 1)
	b.Mark(1, "emptied", opening)
	b.From(nil)
	b.Gauge("sockets", nil)
}
