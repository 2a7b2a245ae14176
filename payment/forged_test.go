package payment

import (
	"net/netip"
	"testing"
	"time"

	"stampede/platform/workshop/require"
)

// A flood that lasts is one incident across its windows, is warned of once in each,
// and costs bounded memory.
func TestFloodOfForgedCallbacksAcrossWindows(t *testing.T) {
	t.Parallel()
	f := forgeries{seen: map[string]*[2]forgedCount{}}
	start := time.Now()
	warned, address := 0, netip.MustParseAddr("2001:db8::")
	for second := range 180 {
		now := start.Add(time.Duration(second) * time.Second)
		for range 10 {
			address = address.Next()
			if f.note("wechat", address, now) {
				warned++
			}
		}
		if found := f.floods(now); (len(found) == 1) != (second >= 2) {
			t.Fatalf("second %d: %+v", second, found)
		}
	}
	require.Equal(t, "warnings in three minutes", warned, 3)
	if late := f.floods(start.Add(180*time.Second + 2*forgedWindow)); len(late) != 0 {
		t.Errorf("still found after two quiet minutes: %+v", late)
	}
	if w := f.seen["wechat"][0]; len(w.from) != forgedAddresses || w.count != 600 {
		t.Errorf("a window holds %d addresses of %d callbacks", len(w.from), w.count)
	}
}
