package order

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"stampede/platform/store/bus"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// writing has Postgres refuse rows of tables with an error until accept is called, and
// hands the writer a message for two users; written closes when the writer returns.
func (s *bundle) writing(code string, tables ...string) (b *seckillevent.Batch, m sent, accept func(), written chan struct{}) {
	s.t.Helper()
	s.exec(`CREATE FUNCTION orders.planted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '` + code + `'; END $$`)
	for _, table := range tables {
		s.exec(`CREATE TRIGGER planted BEFORE INSERT ON ` + table + ` FOR EACH ROW EXECUTE FUNCTION orders.planted()`)
	}
	b, written = grants(s.item(3), 1, 2), make(chan struct{})
	m = s.writes(1, b)
	go func() {
		defer close(written)
		s.writer.write(s.t.Context(), s.t.Context().Done(), []bus.Msg{m.Msg})
	}()
	return b, m, func() { s.exec(`DROP FUNCTION orders.planted CASCADE`) }, written
}

// Postgres refuses the batch again and again, for a reason that lies neither in
// the data nor in the stock. Once it accepts the batch, nothing is lost.
func TestWriterThatIsStuckAsksForAPerson(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config, _ *Deps) { c.MaxRetryDelay = 50 * time.Millisecond })
	b, m, accept, written := s.writing("53100", "orders.orders")
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
	require.Equal(t, "acknowledged without being written", m.acked.Load(), 0)
	accept()
	<-written
	require.Equal(t, "statuses", s.statuses(numbers(b)...), []string{"pending_payment", "pending_payment"})
	require.Equal(t, "acknowledged", m.acked.Load(), 1)
}

// While the writer was stuck, Postgres did not accept the alarm either: it is
// recorded once the batch is written.
func TestAlarmOfAnOutageIsRecordedAfterwards(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config, _ *Deps) { c.MaxRetryDelay = 50 * time.Millisecond })
	_, _, accept, written := s.writing("57P03", "orders.orders", "platform.alarms")
	pgtest.Eventually(t, 30*time.Second, func() bool { return testutil.ToFloat64(s.metrics.writeErrors) > stuckAttempts+1 }, "an alarm that Postgres does not accept")
	accept()
	<-written
	pgtest.Eventually(t, 30*time.Second, func() bool {
		l, err := alarm.List(t.Context(), s.db, alarm.Filter{Code: alarmWriterStuck.Code})
		return err == nil && len(l) == 1 && l[0].Count >= 2 && l[0].FirstSeen.Before(l[0].LastSeen)
	}, "one alarm, seen since its first failure")
}
