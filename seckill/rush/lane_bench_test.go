package rush

import (
	"net/http"
	"testing"
	"time"

	"github.com/coocood/freecache"

	"stampede/platform/base/ids"
)

// idleLane is a lane without workers: attempts stay in it until they are taken
// out.
func idleLane() *lane {
	return newLane(1, &lanes{cfg: DefaultConfig(), flags: freecache.NewCache(flagCacheBytes)})
}

func TestLaneAllocatesNothing(t *testing.T) {
	l := idleLane()
	a := &attempt{user: 7, no: ids.NewFor(7), quantity: 1}
	w := &sink{header: http.Header{}}
	now := time.Now()
	n := testing.AllocsPerRun(1000, func() {
		if _, in := l.enter(a, now); !in {
			t.Fatal("not let in")
		}
		<-l.queue
		writeTicket(w, a.no, statusQueued, 1200)
	})
	if n >= 1 && !raceEnabled {
		t.Fatalf("%v allocations", n)
	}
}
