package notify

import (
	"testing"

	"stampede/order/disputeevent"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/require"
)

// TestDisputeReachesItsShopper also fixes the event's layout, which other versions read.
func TestDisputeReachesItsShopper(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	conn, other := b.connect(t, 7), b.connect(t, 8)
	event := func(user string) bus.Msg {
		return bus.Msg{Subject: disputeevent.SubjectClosed, Data: []byte(`{"dispute_no":"0198f2c8b5d07c3e9a4f1b2c3d4e5f62","order_no":"0198f2c8b5d07c3e9a4f1b2c3d4e5f60","user_id":"` +
			user + `","status":"closed","outcome":"refund","refund_no":"0198f2c8b5d07c3e9a4f1b2c3d4e5f63","version":3}`)}
	}
	for _, user := range []string{"7", "8", "9"} {
		require.NoError(t, b.service.pushDispute(t.Context(), event(user)))
	}
	if got, want := read(t, conn), `{"type":"dispute","dispute":`+string(event("7").Data)+`}`; got != want {
		t.Errorf("pushed\n%s, want\n%s", got, want)
	}
	if got, want := read(t, other), `{"type":"dispute","dispute":`+string(event("8").Data)+`}`; got != want {
		t.Errorf("the other shopper got\n%s, want\n%s", got, want)
	}
	if err := b.service.pushDispute(t.Context(), bus.Msg{Subject: disputeevent.SubjectClosed, Data: []byte("{")}); err == nil {
		t.Error("an event that cannot be read is acknowledged")
	}
}
