package seckill

import (
	"strings"
	"testing"
	"time"
)

// TestConfigNamesWhatIsWrong: every setting out of its range is named, all of
// them at once.
func TestConfigNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	bad := DefaultConfig()
	bad.PreheatLead, bad.TimeZone, bad.PreheatAlarmAfter = time.Second, "Mars/Olympus", 0
	bad.ShortestPayWindow, bad.BrowseCacheBytes = time.Second, 1
	err := bad.Validate()
	if err == nil {
		t.Fatal("nothing is wrong with it")
	}
	for _, want := range []string{"preheat lead is 1s", `time zone "Mars/Olympus"`, "after 0 failures", "payment window is 1s", "cache is 1 bytes"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}
