package order

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"stampede/platform/store/bus"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// Postgres refuses the batch again and again, for a reason that lies neither in
// the data nor in the stock. Once it accepts the batch, nothing is lost.
func TestWriterThatIsStuckAsksForAPerson(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config, _ *Deps) { c.MaxRetryDelay = 50 * time.Millisecond })
	s.exec(`CREATE FUNCTION orders.planted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '53100'; END $$`)
	s.exec(`CREATE TRIGGER planted BEFORE INSERT ON orders.orders FOR EACH ROW EXECUTE FUNCTION orders.planted()`)
	b := grants(s.item(3), 1, 2)
	m := envelope(t, 1, b.Encode(nil), b.ID)
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.writer.write(t.Context(), t.Context().Done(), []bus.Msg{m.Msg})
	}()
	var found alarm.Alarm
	pgtest.Eventually(t, 30*time.Second, func() bool {
		l, err := alarm.List(t.Context(), s.db, alarm.Filter{Code: alarmWriterStuck.Code})
		if err == nil && len(l) == 1 {
			found = l[0]
		}
		return found.Count > 1
	}, "the alarm, and further retries")
	if found.Subject != "order-writer" || found.Detail == "" {
		t.Errorf("alarm %+v", found)
	}
	if m.acked.Load() != 0 {
		t.Error("acknowledged without being written")
	}
	s.exec(`DROP TRIGGER planted ON orders.orders`)
	<-written
	require.Equal(t, "statuses", s.statuses(numbers(b)...), []string{"pending_payment", "pending_payment"})
	require.Equal(t, "acknowledged", m.acked.Load(), 1)
}

// While the writer was stuck, Postgres did not accept the alarm either: it is
// recorded once the batch is written.
func TestAlarmOfAnOutageIsRecordedAfterwards(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config, _ *Deps) { c.MaxRetryDelay = 50 * time.Millisecond })
	s.exec(`CREATE FUNCTION orders.planted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '57P03'; END $$`)
	s.exec(`CREATE TRIGGER planted BEFORE INSERT ON orders.orders FOR EACH ROW EXECUTE FUNCTION orders.planted();
		CREATE TRIGGER planted BEFORE INSERT ON platform.alarms FOR EACH ROW EXECUTE FUNCTION orders.planted()`)
	b := grants(s.item(3), 1, 2)
	m := envelope(t, 1, b.Encode(nil), b.ID)
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.writer.write(t.Context(), t.Context().Done(), []bus.Msg{m.Msg})
	}()
	pgtest.Eventually(t, 30*time.Second, func() bool { return testutil.ToFloat64(s.metrics.writeErrors) > stuckAttempts+1 }, "an alarm that Postgres does not accept")
	s.exec(`DROP TRIGGER planted ON platform.alarms; DROP TRIGGER planted ON orders.orders`)
	<-written
	l, err := alarm.List(t.Context(), s.db, alarm.Filter{Code: alarmWriterStuck.Code})
	if err != nil || len(l) != 1 || l[0].Count < 2 || !l[0].FirstSeen.Before(l[0].LastSeen) {
		t.Errorf("alarms %+v, %v; want one, seen since its first failure", l, err)
	}
}
