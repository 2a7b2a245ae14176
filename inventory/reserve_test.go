package inventory

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/ids"
)

func TestGates(t *testing.T) {
	t.Parallel()
	b := setup(t)
	now := time.Now()
	for i, c := range []struct {
		name          string
		opens, closes time.Duration
		paused        bool
		want          Gate
	}{
		{"open", -time.Minute, time.Minute, false, Open},
		{"not started", time.Minute, time.Hour, false, NotStarted},
		{"not started and paused", time.Minute, time.Hour, true, NotStarted},
		{"ended", -time.Hour, -time.Minute, false, Ended},
		{"paused", -time.Minute, time.Minute, true, Paused},
	} {
		n := onSale(int64(i+1), 3)
		n.OpensAt, n.ClosesAt = now.Add(c.opens), now.Add(c.closes)
		item, epoch := b.loaded(n)
		b.inTx(func(tx pgx.Tx) error { return b.Change(t.Context(), tx, item.ID, Change{Paused: &c.paused}) })
		if err := b.Apply(t.Context(), item.ID); err != nil {
			t.Fatal(err)
		}
		d := b.reserve(item, epoch, one(1))
		mustBe(t, c.name, d.Gate, c.want)
		mustBe(t, c.name+": total", d.Total, 3)
		if c.want == NotStarted && (d.OpensIn <= 50*time.Second || d.OpensIn > time.Minute) {
			t.Errorf("%s: opens in %v", c.name, d.OpensIn)
		}
		if (c.want == Open) != (len(d.Results) == 1) {
			t.Errorf("%s: %d results", c.name, len(d.Results))
		}
	}
}

func TestFencedWithoutStateOrUnderAnotherEpoch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item := b.create(onSale(1, 3))
	d := b.reserve(item, 1, one(1))
	mustBe(t, "gate without state", d.Gate, Fenced)
	mustBe(t, "epoch without state", d.Epoch, 0)
	b.load(item)
	d = b.reserve(item, 77, one(1))
	mustBe(t, "gate under another epoch", d.Gate, Fenced)
	mustBe(t, "verdict with the epoch it named", only(t, b.reserve(item, d.Epoch, one(1))).Verdict, Granted)
}

func TestRestartedRedisFences(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 3))
	b.reserve(item, epoch, one(1))
	b.rdb.HSet(t.Context(), item.stateKey(), "run_id", strings.Repeat("0", 40))

	mustBe(t, "gate", b.reserve(item, epoch, one(2)).Gate, Fenced)
	if ready, err := b.Ready(t.Context(), item); err != nil || ready {
		t.Fatalf("ready %v, error %v", ready, err)
	}
	for user := range int64(2) {
		_, _, _, _, _, err := b.Hold(t.Context(), item, user+1)
		mustFail(t, err, ErrFenced)
	}

	b.load(item)
	if ready, err := b.Ready(t.Context(), item); err != nil || !ready {
		t.Fatalf("ready %v, error %v after Load", ready, err)
	}
}

func TestOneItemPerActivity(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := onSale(1, 3), onSale(2, 3)
	first.PerActivity, second.PerActivity = true, true
	i1, e1 := b.loaded(first)
	i2, e2 := b.loaded(second)

	a := one(1)
	mustBe(t, "first item", only(t, b.reserve(i1, e1, a)).Verdict, Granted)
	r := only(t, b.reserve(i2, e2, one(1)))
	mustBe(t, "second item", r, Result{Verdict: AlreadyBought, Other: a.No})
	mustBe(t, "same number again", only(t, b.reserve(i1, e1, a)).Verdict, Repeated)

	// The activity's shared keys survive the Load of one of its items.
	b.write(i1, e1, a)
	b.load(i2)
	e2 = b.state(i2).Epoch
	mustBe(t, "after loading the second", only(t, b.reserve(i2, e2, one(1))).Verdict, AlreadyBought)
	// A buyer whose grant never became an order is dropped by the Load of that
	// item.
	b.reserve(i2, e2, one(5))
	b.load(i2)
	e2 = b.state(i2).Epoch
	mustBe(t, "after the grant was lost", only(t, b.reserve(i1, e1, one(5))).Verdict, Granted)

	b.mustRelease(b.close(a.No))
	mustBe(t, "after the release", only(t, b.reserve(i2, e2, one(1))).Verdict, Granted)
	if err := b.Forget(t.Context(), i2); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "after the second was forgotten", only(t, b.reserve(i1, e1, one(1))).Verdict, Granted)
}

func TestLargeBatches(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 700))
	var all []Attempt
	for user := range int64(2 * MaxBatch) {
		all = append(all, one(user+1))
	}
	d := b.reserve(item, epoch, all[:MaxBatch]...)
	mustBe(t, "remaining", d.Remaining, 700-MaxBatch)
	for i, r := range d.Results {
		mustBe(t, "result", r, Result{Verdict: Granted, Seq: int64(i + 1)})
	}
	again := b.reserve(item, epoch, all[:MaxBatch]...)
	for i, r := range again.Results {
		mustBe(t, "repeated result", r, Result{Verdict: Repeated, Seq: int64(i + 1)})
	}
	d = b.reserve(item, epoch, all[MaxBatch:]...)
	mustBe(t, "last grant", d.Results[700-MaxBatch-1].Verdict, Granted)
	mustBe(t, "first refusal", d.Results[700-MaxBatch].Verdict, AllHeld)

	var none Decision
	if err := b.Reserve(t.Context(), item, epoch, append(all[:MaxBatch:MaxBatch], all[MaxBatch]), &none); err == nil {
		t.Error("a batch above the bound was accepted")
	}
	if err := b.Reserve(t.Context(), item, epoch, []Attempt{{User: 1, No: ids.NewFor(1)}}, &none); err == nil {
		t.Error("an attempt for no units was accepted")
	}
}

// Every key of an item lies in one slot, and no two items share a name.
func TestKeysOfAScriptShareASlot(t *testing.T) {
	t.Parallel()
	for _, item := range []Item{{ID: 1, ActivityID: 7}, {ID: 1, ActivityID: 7, Shard: 3}, {ID: 1, ActivityID: 7, PerActivity: true}} {
		keys := append(item.epochKeys(5), item.stateKey(), item.buyersKey())
		for _, k := range keys {
			tag, _, ok := strings.Cut(k, "}")
			if !ok || tag+"}" != item.group() {
				t.Errorf("key %s does not begin with %s", k, item.group())
			}
		}
	}
}

// A hash that was lost alone, by eviction or by hand, looks like one without
// entries: the item must not sell its units twice, nor call a queued number
// unknown, and is loaded again.
func TestLostKeyFencesItsItem(t *testing.T) {
	t.Parallel()
	for what, key := range map[string]func(Item, int64) string{
		"users": Item.usersKey, "holds": Item.holdsKey, "buyers": func(i Item, _ int64) string { return i.buyersKey() },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n := onSale(1, 3)
			n.PerActivity = true
			item, epoch := b.loaded(n)
			written, queued := one(1), one(2)
			b.reserve(item, epoch, written, queued)
			b.write(item, epoch, written)
			b.rdb.Unlink(t.Context(), key(item, epoch))
			if what != "buyers" {
				_, _, _, _, _, err := b.Hold(t.Context(), item, queued.User)
				mustFail(t, err, ErrFenced)
			}
			mustBe(t, "gate", b.reserve(item, epoch, one(1)).Gate, Fenced)
			b.mustStand(item, Loading)
			b.Bind(Peers{Grants: &writingGrants{b: b, item: item}})
			if what == "holds" { // its message is in the stream
				b.write(item, epoch, queued)
			}
			b.load(item)
			for _, a := range []Attempt{written, queued} {
				mustBe(t, "holder", only(t, b.reserve(item, b.state(item).Epoch, a)).Verdict, Repeated)
			}
			b.mustBeClean()
		})
	}
}
