package order

import (
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
)

func TestWriterLeavesGrantsOfANewerVersion(t *testing.T) {
	t.Parallel()
	s := setup(t)
	b := grants(s.item(5), 1)
	newer := b.Encode(nil)
	newer[0] = 3 // the layout after the ones that this version reads
	left, written := envelope(t, 1, newer, ids.New()), envelope(t, 2, b.Encode(nil), b.ID)
	var delays []time.Duration
	left.Nak = func(d time.Duration) error { delays = append(delays, d); return nil }
	s.write(t.Context(), t.Context().Done(), []bus.Msg{left.Msg, written.Msg})

	requireEqual(t, "acks", []int64{left.acked.Load(), written.acked.Load()}, []int64{0, 1})
	requireEqual(t, "delays", delays, []time.Duration{newerDelay})
	requireEqual(t, "dead letters", s.count(`SELECT count(*) FROM platform.dead_letters`), 0)
	requireEqual(t, "statuses", s.statuses(numbers(b)...), []string{"pending_payment"})
	s.requireAlarm("newer-grants", "order-writer")
}
