package order

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

func TestWriterStopsWithoutAcknowledging(t *testing.T) {
	t.Parallel()
	s := setup(t)
	m := grants(s.item(5), 1)
	s.exec(`ALTER TABLE orders.orders RENAME TO away`)
	msg, bad := envelope(t, 1, m.Encode(nil), m.ID), envelope(t, 2, nil, ids.New())
	stop := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		s.writer.write(t.Context(), stop, []bus.Msg{msg.Msg, bad.Msg})
	}()
	pgtest.Eventually(t, 30*time.Second, func() bool { return testutil.ToFloat64(s.metrics.writeErrors) >= 1 }, "an attempt fails")
	close(stop)
	<-finished
	require.Equal(t, "acks", []int64{msg.acked.Load(), bad.acked.Load()}, []int64{0, 1})
}

func TestWriterSplitsLargeFetches(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config, _ *Deps) { c.MaxOrdersPerTx = 3 })
	b := s.item(100)
	var fetch []*seckillevent.Batch
	for i := range int64(5) {
		fetch = append(fetch, grants(b, 10*i+1, 10*i+2))
	}
	fetch = append(fetch, grants(b, 91, 92, 93, 94)) // larger than the bound: alone
	s.deliver(fetch...)
	require.Equal(t, "orders", s.count(`SELECT count(*) FROM orders.orders WHERE status = 'pending_payment'`), 14)
	require.Equal(t, "transactions", s.count(`SELECT count(DISTINCT xmin::text) FROM orders.orders`), 6)
}

// A stop has one deadline for everything that the writer has fetched, however
// many transactions that takes.
func TestWriterHasOneDeadlineAfterTheStop(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config, _ *Deps) { c.MaxOrdersPerTx = 1 })
	b := s.item(10)
	s.exec(`CREATE FUNCTION orders.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_sleep(CASE WHEN (SELECT count(*) FROM orders.orders) < 3 THEN 0.3 ELSE 60 END); RETURN NULL; END $$`)
	s.exec(`CREATE TRIGGER slow AFTER INSERT ON orders.orders FOR EACH STATEMENT EXECUTE FUNCTION orders.slow()`)
	var msgs []bus.Msg
	var all []sent
	for user := range int64(4) { // two slow ones, one that hangs, one behind it
		m := grants(b, user+1)
		all = append(all, envelope(t, uint64(user)+1, m.Encode(nil), m.ID))
		msgs = append(msgs, all[user].Msg)
	}
	stop := make(chan struct{})
	close(stop)
	began := time.Now()
	s.writer.write(t.Context(), stop, msgs)
	if took := time.Since(began); took > 2*stopGrace { // one for each waiting message would be three
		t.Errorf("the writer kept running for %s", took)
	}
	require.Equal(t, "acks", []int64{all[0].acked.Load(), all[1].acked.Load(), all[2].acked.Load(), all[3].acked.Load()}, []int64{1, 1, 0, 0})
	require.Equal(t, "orders", s.count(`SELECT count(*) FROM orders.orders`), 2)
}

// Grants that are redriven and still cannot be orders become a letter that can
// be redriven once more: the inbox does not know its batch.
func TestRedrivenLetterCanBeRedrivenAgain(t *testing.T) {
	t.Parallel()
	s := setup(t)
	m := grants(s.item(5), 1, 2)
	m.Grants[1].Quantity = 0
	s.deliver(m)
	seen := map[ids.ID]bool{m.ID: true}
	for range 3 {
		var id ids.ID
		var payload []byte
		require.NoError(t, s.db.QueryRow(t.Context(), `DELETE FROM platform.dead_letters RETURNING id, payload`).Scan(&id, &payload))
		var letter seckillevent.Batch
		require.NoError(t, letter.Decode(payload))
		require.Equal(t, "the inbox knows the letter", seen[letter.ID], false)
		seen[letter.ID] = true
		msg := envelope(t, 1, payload, id)
		s.writer.write(t.Context(), t.Context().Done(), []bus.Msg{msg.Msg})
		require.Equal(t, "acks", msg.acked.Load(), 1)
	}
}
