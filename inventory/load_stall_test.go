package inventory

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/require"
)

// slowWriter is a bus whose queue is done after a time, and moves until then or
// not.
type slowWriter struct {
	quietBus
	until  time.Time
	moves  bool
	handed uint64
}

func (b *slowWriter) Done(context.Context, int64, uint64) (bool, error) {
	return !time.Now().Before(b.until), nil
}

func (b *slowWriter) State(context.Context) (bus.QueueState, error) {
	if b.moves {
		b.handed++
	}
	return bus.QueueState{Last: b.handed}, nil
}

// A Load that waits for a writer with much to write goes on for as long as the
// writer does.
func TestLoadEndsWithoutProgressOnly(t *testing.T) {
	t.Parallel()
	for name, moves := range map[string]bool{"the queue moves": true, "the queue stands": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const backlog = 20 * loadStall
				s := &Service{deps: Deps{Grants: &slowWriter{until: time.Now().Add(backlog), moves: moves}}}
				ctx, alive, end := watch(t.Context(), loadStall)
				defer end()
				began := time.Now()
				err := s.awaitWriter(ctx, 1, fenced{alive: alive})
				switch took := time.Since(began); {
				case moves && (err != nil || took < backlog):
					t.Errorf("ended after %s: %v", took, err)
				case !moves && (!errors.Is(context.Cause(ctx), errStalled) || took > 2*loadStall):
					t.Errorf("ended after %s: %v, cause %v", took, err, context.Cause(ctx))
				}
			})
		})
	}
}

// The error says why the Load ended, and the item can be loaded again.
func TestStalledLoadSaysSo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 3))
	b.reserve(item, epoch, one(1))
	b.stall = 100 * time.Millisecond
	b.bus.done = func(uint64) bool { return false }
	mustFail(t, b.Load(t.Context(), item.ID), errStalled)
	b.stall, b.bus.done = loadStall, nil
	b.load(item)
}

// A Load says with each chunk that it goes on, whatever it has to do.
func TestEachChunkOfALoadIsProgress(t *testing.T) {
	t.Parallel()
	const holders = 4 * scanCount
	b := setup(t)
	item := b.soldTo(onSale(1, holders+10), holders)
	for name, prepare := range map[string]func(){
		"nothing differs": func() {},
		"holders are unknown": func() {
			users := item.usersKey(b.state(item).Epoch)
			for user := range holders / 2 {
				b.rdb.HSet(t.Context(), users, 1_000_000+user, "x")
			}
		},
	} {
		prepare()
		beats := 0
		require.NoError(t, b.underLease(t.Context(), item.ID, func(ctx context.Context, itemID, token int64) error {
			return b.Service.load(ctx, itemID, token, func() { beats++ })
		}))
		if beats < holders/scanCount {
			t.Errorf("%s: %d steps for %d holders", name, beats, holders)
		}
		b.mustBeClean()
	}
}

// An order that is closed after the epoch was raised is either a hold that its
// event releases, or no hold.
func TestOrderClosedBeforeItsItemIsRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, _ := b.loaded(onSale(1, 3))
	no := b.written(item, 1)
	var closed orderevent.Order
	b.failpoint = func(step string) error {
		if step == "counted" {
			closed = b.close(no)
		}
		return nil
	}
	b.load(item)
	mustBe(t, "remaining", b.state(item).Remaining, 3)
	b.mustRelease(closed)
	mustBe(t, "remaining after the event", b.state(item).Remaining, 3)
	b.mustBeClean()
}
