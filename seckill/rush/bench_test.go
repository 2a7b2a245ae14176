package rush

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/base/race"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/seckillevent"
)

// soldOutShop is an instance whose flag is up, and a path of a user who holds
// nothing.
func soldOutShop(t testing.TB) (*instance, *http.Request) {
	t.Helper()
	y := setup(t)
	it := y.Item(1)
	i := y.instance([]*catalogue.Item{it}, func(c *Config) { c.FlagLife = time.Minute })
	i.buy(1, it)
	i.buy(2, it)
	mustBeUp(t, i, it, outAllHeld)
	req := httptest.NewRequest(http.MethodPost, i.issue(3, it, 1).RushURL, nil)
	req.Header.Set("Accept-Language", "zh-CN,zh;q=0.9,en;q=0.8")
	return i, req
}

func TestRefusalAllocatesNothing(t *testing.T) {
	i, req := soldOutShop(t)
	request := httpx.DirectRequest{Last: strings.TrimPrefix(req.URL.Path, rushPrefix), AcceptLanguage: req.Header.Get("Accept-Language")}
	forged := httpx.DirectRequest{Last: strings.Repeat("A", pathTextBytes)}
	var into httpx.DirectAnswer
	answers := func(k *httpx.DirectRequest, status int) {
		into = httpx.DirectAnswer{Body: into.Body[:0]}
		if i.rush.Answer(t.Context(), k, &into); into.Status != status {
			t.Fatal(into.Status)
		}
	}
	n := testing.AllocsPerRun(1000, func() {
		answers(&request, http.StatusConflict)
		answers(&forged, http.StatusForbidden)
	})
	if n >= 1 && !race.Enabled {
		t.Fatalf("%v allocations", n)
	}
}

// idleLane is a lane without workers: attempts stay in it until they are taken
// out.
func idleLane() *lane {
	return newLane(1, &lanes{cfg: DefaultConfig()})
}

func TestLaneAllocatesNothing(t *testing.T) {
	l := idleLane()
	a := &attempt{user: 7, no: ids.NewFor(7), quantity: 1}
	var into httpx.DirectAnswer
	now := time.Now()
	n := testing.AllocsPerRun(1000, func() {
		if _, in := l.enter(a, now); !in {
			t.Fatal("not let in")
		}
		<-l.queue
		into.Body = into.Body[:0]
		writeTicket(&into, a.no, orderevent.StatusQueued, 1200)
	})
	if n >= 1 && !race.Enabled {
		t.Fatalf("%v allocations", n)
	}
}

// BenchmarkPublish measures the durable publication of 256 grants in one message, as
// a lane does it before it answers. The baseline appends the same bytes to a file
// and syncs it, each before the next: the minimum for any store that promises to
// lose nothing. It keeps no index, detects no duplicates and has no reader. On both
// sides nearly all of the time is waiting for the disk.
func BenchmarkPublish(b *testing.B) {
	batch := seckillevent.Batch{
		ID: ids.New(), ItemID: 1, ActivityID: 1, SessionID: 1, Epoch: 1, UnitPrice: 9900, Currency: "CNY", Title: "限量版跑鞋", PayWindow: 15 * time.Minute,
		Grants: make([]seckillevent.Grant, 256),
	}
	for i := range batch.Grants {
		user := int64(i) + 1
		batch.Grants[i] = seckillevent.Grant{No: ids.NewFor(user), User: user, Quantity: 1, Seq: user}
	}
	data, subject := batch.Encode(nil), seckillevent.GrantsSubject(batch.ItemID)
	perSecond := func(b *testing.B) {
		b.Helper()
		b.ReportMetric(float64(b.N*len(batch.Grants))/b.Elapsed().Seconds(), "grants/s")
	}
	b.Run("baseline", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "grants"))
		require.NoError(b, err)
		defer func() { _ = f.Close() }()
		for b.Loop() {
			if _, err := f.Write(data); err != nil {
				b.Fatal(err)
			}
			require.NoError(b, f.Sync())
		}
		perSecond(b)
	})
	b.Run("ours", func(b *testing.B) {
		nats := bustest.Open(b, func(c *bus.Config) { c.Queues[0].MaxBytes = 8 << 30 })
		for b.Loop() {
			require.NoError(b, nats.Publish(b.Context(), subject, ids.New(), data))
		}
		perSecond(b)
	})
}

// BenchmarkAdmissionRate measures attempts that get a unit, 256 at a time, of an item
// without an admission rate and of one whose rate keeps none waiting: what the pacer and
// turns.lua cost. cpu-µs/attempt is of this process, without Redis's; attempts/s with a
// rate is that of so many in each shortStep.
func BenchmarkAdmissionRate(b *testing.B) {
	for name, rate := range map[string]*int32{"without": nil, "with": new(int32(1_000_000))} {
		b.Run(name, func(b *testing.B) {
			y := setup(b)
			it := y.Item(int32(min(b.N+1, 1_000_000))) //nolint:gosec // bounded
			it.Admission = rate
			i := y.instance([]*catalogue.Item{it})
			i.rush.lanes.grants = &faultyStream{grants: i.rush.lanes.grants, publish: func(func() error) error { return nil }}
			l := i.rush.lanes.open(it.ID)
			before := processorTime(b)
			b.ResetTimer()
			for user := int64(1); user <= int64(b.N); user += 256 {
				var all []*attempt
				for k := range min(256, int64(b.N)-user+1) {
					a := waiter(b.Context(), user+k)
					a.admission = rate
					if o, in := l.enter(a, time.Now()); !in {
						b.Fatal(o)
					}
					all = append(all, a)
				}
				for _, a := range all {
					if <-a.done; a.verdict.outcome != outQueued {
						b.Fatal(a.verdict.outcome)
					}
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "attempts/s")
			b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/1e3/float64(b.N), "cpu-µs/attempt")
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
