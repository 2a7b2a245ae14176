package message

import (
	"context"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// statements counts what Postgres is asked.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// sink takes every message at once.
type sink struct{ taken atomic.Int64 }

func (c *sink) Send(context.Context, sms.Message) error {
	c.taken.Add(1)
	return nil
}

// remindAll reminds that many shoppers of an opening, and returns the statements that each cost.
func remindAll(t testing.TB, shoppers int) (perMessage float64) {
	t.Helper()
	b := setup(t, takes)
	counted := &statements{}
	cfg := b.db.Config().Copy()
	cfg.ConnConfig.Tracer = counted
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	to := &sink{}
	b.deps.DB, b.deps.Sender, b.deps.Contacts = pool, to, (&account.Store{DB: pool}).ContactsOf
	b.limit.SetLimit(1e6)
	b.rule(func(r *Rules) { r.QuietUntil = r.QuietFrom })
	pgtest.Exec(t, b.db, `INSERT INTO account.users (phone) SELECT '+8613' || lpad(i::text, 9, '0') FROM generate_series(1, $1::int) i`, shoppers)
	pgtest.Exec(t, b.db, `ANALYZE account.users`)
	users := make([]int64, shoppers)
	first := pgtest.Read[int64](t, b.db, `SELECT min(id) FROM account.users`)
	for i := range users {
		users[i] = first + int64(i)
	}
	b.opens(5, 15*time.Minute, users...)
	counted.n.Store(0)
	if bench, is := t.(*testing.B); is {
		bench.ResetTimer()
	}
	began, used := time.Now(), processor()
	require.NoError(t, b.remind(t.Context()))
	made := time.Since(began)
	b.dueNow()
	for n := 1; n > 0; {
		n, err = b.batch(t.Context(), lane{offers: true})
		require.NoError(t, err)
	}
	took := time.Since(began)
	require.Equal(t, "taken, and noted", []int{int(to.taken.Load()), b.count(sent)}, []int{shoppers, shoppers})
	perMessage = float64(counted.n.Load()) / float64(shoppers)
	if bench, is := t.(*testing.B); is {
		bench.ReportMetric(made.Seconds(), "s/made")
		bench.ReportMetric(took.Seconds(), "s/all")
		bench.ReportMetric((processor() - used).Seconds(), "cpu-s/all")
		bench.ReportMetric(perMessage, "statements/message")
	}
	return perMessage
}

// processor is the processor time that this process has used.
func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // does not fail for the process itself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkReminders is a hundred thousand reminders to a channel that takes them at once: what the server itself needs.
func BenchmarkReminders(b *testing.B) {
	for b.Loop() {
		remindAll(b, 100_000)
	}
}

// A thousand reminders are made by a few statements and sent by some for each hundred: the cost of a message does not grow
// with the crowd.
func TestRemindersAreMadeAndSentInBatches(t *testing.T) {
	t.Parallel()
	const most = 0.1
	if per := remindAll(t, 2_500); per > most {
		t.Errorf("%s statements for each message, more than %v", strconv.FormatFloat(per, 'g', 3, 64), most)
	}
}

// Reminders that become due one after the other are sent by the round, not each by itself: its statements cost a sale as much
// as a hundred's.
func TestTrickleIsSentByTheRound(t *testing.T) {
	t.Parallel()
	const shoppers, most = 150, 10
	b := setup(t, takes)
	b.rule(func(r *Rules) { r.QuietUntil = r.QuietFrom })
	users := make([]int64, shoppers)
	for i := range users {
		users[i] = b.user("+8613800138" + strconv.Itoa(100+i))
	}
	b.opens(5, 10*time.Minute, users...)
	require.NoError(t, b.remind(t.Context()))
	pgtest.Exec(t, b.db, `UPDATE notify.messages m SET next_try = clock_timestamp() + n * interval '3 ms'
		FROM (SELECT id, row_number() OVER () AS n FROM notify.messages) o WHERE o.id = m.id`)
	b.idle = 100 * time.Millisecond
	sends(t, b.Service)
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.count(sent) == shoppers }, "all are sent")
	if rounds := pgtest.Read[int](t, b.db, `SELECT count(DISTINCT xmin::text)::int FROM notify.messages`); rounds > most {
		t.Errorf("%d messages were noted by %d transactions, more than %d", shoppers, rounds, most)
	}
}
