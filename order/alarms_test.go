package order

import (
	"testing"
	"time"

	"stampede/platform/alarm"
	"stampede/platform/bus"
	"stampede/platform/pgtest"
)

// Postgres refuses the batch again and again, for a reason that is neither the
// data's nor the stock's; when it takes it, nothing was lost.
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
		s.write(t.Context(), t.Context().Done(), []bus.Msg{m.Msg})
	}()
	var found alarm.Alarm
	pgtest.Eventually(t, 20*time.Second, func() bool {
		l, err := alarm.List(t.Context(), s.db, alarm.Filter{Code: alarm.WriterStuck})
		if err == nil && len(l) == 1 {
			found = l[0]
		}
		return found.Count > 1
	}, "the alarm, and that it goes on")
	if found.Subject != "order-writer" || found.Detail == "" {
		t.Errorf("alarm %+v", found)
	}
	if m.acked.Load() != 0 {
		t.Error("acknowledged without being written")
	}
	s.exec(`DROP TRIGGER planted ON orders.orders`)
	<-written
	requireEqual(t, "statuses", s.statuses(numbers(b)...), []string{"pending_payment", "pending_payment"})
	requireEqual(t, "acknowledged", m.acked.Load(), 1)
}
