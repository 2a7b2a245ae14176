package inventory

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/store/redisx"
	"stampede/platform/workshop/redistest"
)

// backup copies everything in Redis and returns a function that restores it, like
// a failover that is reverted before the first primary has received the writes
// made meanwhile.
func (b *bundle) backup() (restore func()) {
	b.t.Helper()
	kept := make(map[string]string)
	for _, key := range b.rdb.Keys(b.t.Context(), "*").Val() {
		kept[key] = b.rdb.Dump(b.t.Context(), key).Val()
	}
	return func() {
		b.t.Helper()
		err := b.rdb.FlushDB(b.t.Context()).Err()
		for key, dump := range kept {
			if err == nil {
				err = b.rdb.Restore(b.t.Context(), key, 0, dump).Err()
			}
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bundle) mustStand(item Item, want Status) {
	b.t.Helper()
	seen, err := b.Health(b.t.Context(), []Item{item})
	if err != nil || seen[0] != want {
		b.t.Errorf("item %d has status %d (%v), want %d", item.ID, seen[0], err, want)
	}
	if ready, err := b.Ready(b.t.Context(), item); err != nil || ready == want.Unready() {
		b.t.Errorf("item %d is ready: %v (%v)", item.ID, ready, err)
	}
}

func TestHealthReturnsWhatAnItemNeeds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item := b.create(onSale(1, 5))
	b.mustStand(item, NotThere)
	b.load(item)
	b.mustStand(item, Good)
	b.inTx(func(tx pgx.Tx) error { return b.Change(t.Context(), tx, item.ID, Change{AddStock: new(int32(2))}) })
	b.mustStand(item, Behind)
	if err := b.Apply(t.Context(), item.ID); err != nil {
		t.Fatal(err)
	}
	b.mustStand(item, Good)
	if r, err := fenceScript.run(t.Context(), b.rdb, 4, []string{item.stateKey()}, 99); err != nil || r.int(0) != fenceDone {
		t.Fatal(r, err)
	}
	b.mustStand(item, Loading)
	b.rdb.HSet(t.Context(), item.stateKey(), "run_id", otherRun)
	b.mustStand(item, Restarted)
}

// The item decides, under an epoch that the order writer refuses, and the server
// has the same run id as when the item was loaded.
func TestAnItemBackAtAnOlderLoadIsOutdated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, kept := b.heldAndGone()
	back := b.backup()
	b.load(item)
	back()
	old := b.state(item)
	mustBe(t, "gate", b.reserve(item, old.Epoch, one(3)).Gate, Open)
	b.mustStand(item, Outdated)
	b.mustNotBeOpen(item)
	b.load(item)
	b.mustStand(item, Good)
	b.mustHold(item, kept)
	if epoch := b.state(item).Epoch; epoch != old.Epoch+2 {
		t.Errorf("epoch %d after %d and a Load that was reverted", epoch, old.Epoch)
	}
}

// The restored server made no grants under its epoch; those of the epoch after
// may not have reached the stream yet.
func TestALoadAfterAFailoverAndBackWaitsForPublishers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, _ := b.loaded(onSale(1, 5))
	back := b.backup()
	b.load(item)
	mustBe(t, "grant by the other server", only(t, b.reserve(item, b.state(item).Epoch, one(1))).Verdict, Granted)
	back()
	b.cfg.PublishDeadline = time.Minute
	if !b.waits(b.Service, item) {
		t.Error("did not wait")
	}
}

// Health reads the other nodes of a cluster although one is down.
func TestADeadNodeHidesItsOwnItemsOnly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	cluster := redistest.Shards(t, 2)
	rdb, err := redisx.Open(t.Context(), cluster.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rdb.Close() }()
	b.deps.Redis = rdb
	var items []Item
	var at []*redistest.Server
	for id := int64(1); len(items) < 10 || !slices.ContainsFunc(at, func(s *redistest.Server) bool { return s != at[0] }); id++ {
		item := b.create(onSale(id, 5))
		b.load(item)
		items, at = append(items, item), append(at, cluster.Owner(t, item.stateKey()))
	}
	at[0].Kill()
	seen, err := b.Health(t.Context(), items)
	if err == nil {
		t.Error("no error about the node that does not answer")
	}
	for i := range items {
		want := Good
		if at[i] == at[0] {
			want = Unseen
		}
		if seen[i] != want {
			t.Errorf("item %d has status %d, want %d (%v)", items[i].ID, seen[i], want, err)
		}
	}
}
