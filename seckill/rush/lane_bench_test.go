package rush

import (
	"net/http"
	"testing"
	"time"

	"github.com/coocood/freecache"

	"stampede/inventory"
	"stampede/platform/base/ids"
)

// idleLane is a lane without workers: attempts stay in it until they are taken
// out.
func idleLane() *lane {
	return newLane(1, &lanes{cfg: DefaultConfig(), flags: freecache.NewCache(flagCacheBytes)})
}

// BenchmarkLaneEnter measures entering the line, by outcome; each admitted
// attempt is taken out again, as a worker does.
func BenchmarkLaneEnter(b *testing.B) {
	for name, prepare := range map[string]func(*lane){
		"taken": func(*lane) {},
		"rated": func(*lane) {},
		"no_place": func(l *lane) {
			l.line.cfg.MinPlaces = 0
			l.learn(&inventory.Decision{Epoch: 1}, false, time.Now())
		},
		"lagging": func(l *lane) {
			l.line.cfg.HotFor = time.Hour
			l.hotUntil.Store(time.Now().Add(time.Hour).UnixNano())
		},
	} {
		b.Run(name, func(b *testing.B) {
			l := idleLane()
			prepare(l)
			now := time.Now()
			var admission *int32
			if name == "rated" {
				admission = new(int32(1_000_000_000))
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				a := &attempt{user: 7, no: ids.NewFor(7), quantity: 1, admission: admission}
				for pb.Next() {
					if _, in := l.enter(a, now); in {
						<-l.queue
					}
				}
			})
		})
	}
}

// BenchmarkTicket measures the 202 of a granted attempt.
func BenchmarkTicket(b *testing.B) {
	no := ids.NewFor(7)
	w := &sink{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		writeTicket(w, no, statusQueued, 1200)
	}
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
