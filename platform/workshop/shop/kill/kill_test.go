package kill

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/failpoint"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

var (
	killRounds = flag.Int("killpoints.rounds", 0, "number of kills at each point, each with a different seed; 0 plays the short form")
	killSeed   = flag.Uint64("killpoints.seed", 0, "the seed of the first scenario, to repeat a failed one; 0 means random")
)

// Ends of a stage that are not points in the process's own code.
const (
	redisDies    = "redis dies"
	postgresDies = "postgres dies"
	anyMoment    = "any moment"
)

// mostHits bounds the hit, chosen by the seed, at which a point kills. A stage
// reaches a batch's points once or more per wave, those of one shopper as often
// as there are shoppers; Loads happen once per item and start.
var mostHits = map[string]int{
	"after-lua":       6,
	"after-publish":   6,
	"before-202":      30,
	"after-commit":    6,
	"before-ack":      6,
	"orders-closed":   4,
	"after-payment":   6,
	"borrow-lent":     2,
	"borrow-moved":    2,
	"load-fenced":     2,
	"load-counted":    2,
	"load-written":    2,
	"relay-published": 12,
}

// scenario is one shop whose process is killed in several ways, one after the
// other, each time under load, and then restarts and stays up.
type scenario struct {
	name   string
	stages []string
	shop   func(*testing.T) *mortal
	seed   uint64
	shards int // of the item; 0 is one
}

// shortForm reaches every point once. All but the first of a scenario hit a process
// that is recovering from the one before, which is the harder case. With `run` Redis starts over
// as well and everything is loaded again; with `serve` it keeps running and
// remembers what its dead client has taken or owes it.
func shortForm() []scenario {
	return []scenario{
		{name: "run", shop: runShop, stages: []string{"after-lua", "load-fenced", "before-ack"}},
		{name: "run", shop: runShop, stages: []string{"after-publish", "load-counted", "after-commit", redisDies}},
		{name: "run", shop: runShop, shards: 4, stages: []string{"before-202", "load-written", "relay-published", "borrow-lent"}},
		{name: "serve", shop: serveShop, stages: []string{"after-payment", "orders-closed"}},
		{name: "serve", shop: serveShop, shards: 4, stages: []string{"after-publish", "after-lua", "borrow-moved"}},
	}
}

// longForm plays every end the given number of times, in pairs chosen by a
// round's seed. Every fifth scenario has separate stores that keep running.
func longForm(rounds int, rng *rand.Rand) []scenario {
	var scenarios []scenario
	for range rounds {
		ends := []string{redisDies, postgresDies, anyMoment}
		ends = append(ends, failpoint.Names()...)
		rng.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
		for pair := range slices.Chunk(ends, 2) {
			s := scenario{name: "run", stages: pair, shop: runShop, shards: rng.IntN(2) * 4}
			if slices.ContainsFunc(pair, func(end string) bool { return strings.HasPrefix(end, "borrow-") }) {
				s.shards = 4
			}
			if rng.IntN(5) == 0 && !slices.ContainsFunc(pair, needsRun) {
				s.name, s.shop = "serve", serveShop
			}
			scenarios = append(scenarios, s)
		}
	}
	return scenarios
}

// needsRun reports whether an end is possible only if the stores start with the
// process: otherwise they must not be killed, and nothing has to be loaded
// again.
func needsRun(end string) bool {
	return storeDies(end) || strings.HasPrefix(end, "load-")
}

// storeDies reports whether an end leaves the process running, which restarts
// the store.
func storeDies(end string) bool { return end == redisDies || end == postgresDies }

// TestKillPoints kills real processes with SIGKILL at named points, in the
// middle of a rush, and proves that the restarted process keeps every promise:
// the same number has the same answer, no user has two orders, no unit is lost
// or sold twice, and the item sells the remaining units.
func TestKillPoints(t *testing.T) {
	t.Parallel()
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	scenarios := shortForm()
	if *killRounds > 0 {
		scenarios = longForm(*killRounds, rand.New(rand.NewPCG(seed, 0)))
	}
	for i, s := range scenarios {
		s.seed = seed + uint64(i)
		t.Run(fmt.Sprintf("%d-%s-%s", i, s.name, strings.ReplaceAll(strings.Join(s.stages, "-then-"), " ", "-")), func(t *testing.T) {
			t.Parallel()
			t.Logf("repeat with -run %s -killpoints.seed=%d -killpoints.rounds=%d", t.Name(), seed, *killRounds)
			s.play(t)
		})
	}
}

// TestShortFormReachesEveryPoint fails if a new point is missing here.
func TestShortFormReachesEveryPoint(t *testing.T) {
	t.Parallel()
	for _, name := range failpoint.Names() {
		if !slices.ContainsFunc(shortForm(), func(s scenario) bool { return slices.Contains(s.stages, name) }) {
			t.Errorf("no scenario kills at %s", name)
		}
		if mostHits[name] == 0 {
			t.Errorf("mostHits has no %s", name)
		}
	}
}

// play runs the stages and checks the result against the client log.
func (s scenario) play(t *testing.T) {
	t.Helper()
	rng := rand.New(rand.NewPCG(s.seed, 1))
	victim := s.shop(t)
	c := newRushers(t, rng, "http://"+victim.addr)
	if s.shards > 0 {
		victim.args = append(victim.args, fmt.Sprint("--stock-shards=", s.shards))
		c.stock, c.shards = 105*s.shards, s.shards
	}
	for _, end := range s.stages {
		s.stage(t, victim, c, end)
	}
	began := time.Now()
	last := victim.start(t, "")
	if !victim.await(t, last) {
		t.Fatalf("the process does not start any more:\n%s", last.Out)
	}
	t.Logf("ready %s after the start", time.Since(began).Round(time.Millisecond))
	c.checkAfterCrashes(victim)
}

// stage starts a process and plays waves until it has been killed in the given way.
func (s scenario) stage(t *testing.T, victim *mortal, c *rushers, end string) {
	t.Helper()
	points, nth := "", 0
	if most, ok := mostHits[end]; ok {
		nth = 1 + c.rng.IntN(most)
		points = fmt.Sprintf("%s=kill@%d", end, nth)
	} else {
		nth = 1 + c.rng.IntN(4) // the wave in which it happens
	}
	p := victim.start(t, points)
	ready := victim.await(t, p)
	waves := 0
	for deadline := time.Now().Add(time.Minute); ready && !p.Over(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen within a minute and %d waves", end, waves)
		}
		if c.sale.ItemID == "" && !c.plan() {
			continue
		}
		if c.units() > c.stock-2*waveSize {
			t.Fatalf("%s did not happen before the stock was sold out, in %d waves", points, waves)
		}
		waves++
		var during func()
		if points == "" && waves == nth {
			during = func() { s.strike(t, victim, p, end, c.rng) }
		}
		c.wave(during)
		if storeDies(end) && waves == nth+1 { // the shop has sold on; the next stage needs a new process
			_ = p.Cmd.Process.Kill()
			<-p.Ended
		}
	}
	<-p.Ended
	switch told := "fail point " + end + " reached"; {
	case points != "" && (!p.Killed() || !strings.Contains(p.Out.String(), told)):
		t.Fatalf("the process did not die at %s: %s\n%s", points, p.Cmd.ProcessState, p.Out)
	case end == anyMoment && !p.Killed():
		t.Fatalf("the process did not die by SIGKILL: %s", p.Cmd.ProcessState)
	}
	t.Logf("%s, hit or wave %d: the process ended (%s) after %d waves", end, nth, p.Cmd.ProcessState, waves)
}

// strike kills the process or one of its stores from outside, shortly after a
// wave began, and waits for the process to exit or to have restarted the store.
func (s scenario) strike(t *testing.T, victim *mortal, p *shop.Process, end string, rng *rand.Rand) {
	t.Helper()
	moment := time.NewTimer(time.Duration(rng.IntN(50)) * time.Millisecond)
	<-moment.C
	switch end {
	case redisDies:
		victim.kill(t, "redis/redis.pid")
		p.Out.Await(t, `(code=store-restarted subject=Redis)`, 30*time.Second, p.Ended)
		return
	case postgresDies:
		victim.kill(t, "postgres/postmaster.pid")
		p.Out.Await(t, `(code=store-restarted subject=Postgres)`, 30*time.Second, p.Ended)
		return
	default:
		require.NoError(t, p.Cmd.Process.Kill())
	}
	select {
	case <-p.Ended:
	case <-time.After(30 * time.Second): // three times the promised 10 s
		t.Fatalf("the process did not exit after %s", end)
	}
}
