package rush

import (
	"context"
	"net/http"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/seckillevent"
)

// published consumes the grants stream until so many grants were read.
func (y *bundle) published(n int) map[ids.ID]seckillevent.Grant {
	y.T.Helper()
	grants := map[ids.ID]seckillevent.Grant{}
	ctx, cancel := context.WithTimeout(y.T.Context(), 30*time.Second)
	defer cancel()
	err := y.Queue().Consume(ctx, func(_ context.Context, batch []bus.Msg) {
		for _, m := range batch {
			var b seckillevent.Batch
			if err := b.Decode(m.Data); err != nil {
				y.T.Error(err)
			}
			for _, g := range b.Grants {
				grants[g.No] = g
			}
			if err := m.Ack(); err != nil {
				y.T.Error(err)
			}
		}
		if len(grants) >= n {
			cancel()
		}
	})
	if err != nil && ctx.Err() == nil {
		y.T.Fatal(err)
	}
	return grants
}

// A check at the door shortens the payment window; the path carries that, and
// so does the message to the order writer.
func TestAShorterPaymentWindowTravelsWithTheGrant(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10, func(it *catalogue.Item) { it.PayWindow = 24 * time.Hour })
	i := y.instance([]*catalogue.Item{it})
	i.rush.deps.ShortestPay = 20 * time.Second // of the providers
	windows := map[int64]time.Duration{
		1: 24 * time.Hour,          // not shortened
		2: 30 * time.Second,        //
		3: 5 * time.Second,         // too short for a provider to take the payment
		4: 48 * time.Hour,          // a check may not loosen
		5: 23 * time.Hour,          // more than a path can carry
		6: 1500 * time.Millisecond, // also too short
	}
	i.rush.deps.Admit = func(_ context.Context, a *Applicant) error {
		a.PayWithin = windows[a.User]
		return nil
	}
	want := map[int64]int32{1: 0, 2: 30, 3: 20, 4: 0, 5: 65535, 6: 20}
	numbers := map[int64]string{}
	for user := range windows {
		path := i.issue(user, it, 1)
		numbers[user] = path.OrderNo
		var tok token
		if err := i.rush.keys.verify(path.Path, &tok); err != nil || tok.payWithin != want[user] {
			t.Errorf("user %d: the path says %d s (%v), want %d", user, tok.payWithin, err, want[user])
		}
		i.send(path.Path).want(t, "", http.StatusAccepted, "")
	}
	got := y.published(len(windows))
	for user, no := range numbers {
		number, err := ids.Parse(no)
		require.NoError(t, err)
		if g := got[number]; g.PayWithin != want[user] {
			t.Errorf("user %d: the grant says %d s, want %d", user, g.PayWithin, want[user])
		}
	}
}

// A path that is usable later than the opening is refused before that time,
// although the opening itself is left to Redis within a second of tolerance.
func TestLaterAdmissionIsStrict(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it})
	later := time.Now().Add(time.Minute).Truncate(time.Millisecond)
	i.rush.deps.Admit = func(_ context.Context, a *Applicant) error {
		a.UsableFrom = later
		return nil
	}
	path := i.issue(1, it, 1)
	var tok token
	if err := i.rush.keys.verify(path.Path, &tok); err != nil || tok.from != later.UnixMilli() {
		t.Fatalf("%v, usable from %d", err, tok.from)
	}
	if v := i.rush.door(&tok, it, later.Add(-time.Millisecond)); v.outcome != outNotStarted || v.wait <= 0 {
		t.Errorf("a millisecond early: outcome %d after %s", v.outcome, v.wait)
	}
	if v := i.rush.door(&tok, it, later); v.outcome != outNone {
		t.Errorf("on time: outcome %d", v.outcome)
	}
}
