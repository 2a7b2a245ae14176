package inventory

import (
	"errors"
	"testing"
)

func TestOneLoadAtATime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item := b.create(onSale(1, 3))
	other := b.instance()
	b.failpoint = func(step string) error {
		if step == "fenced" {
			mustFail(t, other.Load(t.Context(), item.ID), ErrBusy)
		}
		return nil
	}
	b.load(item)
	if err := other.Load(t.Context(), item.ID); err != nil {
		t.Errorf("the lease was kept: %v", err)
	}
	mustFail(t, b.Load(t.Context(), 404), ErrNoStock)
}

// A Load whose lease expired while it slept changes nothing that its successor
// wrote, wherever it wakes up.
func TestSleepingLoadIsOvertaken(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"planned", "fenced", "drained", "counted", "written"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			item, _ := b.loaded(onSale(1, 3))
			other := b.instance()
			var after State
			b.failpoint = func(at string) error {
				if at != step {
					return nil
				}
				if _, err := b.db.Exec(t.Context(), `UPDATE platform.leases SET expires_at = '-infinity'`); err != nil {
					return err
				}
				if err := other.Load(t.Context(), item.ID); err != nil {
					return err
				}
				after = b.state(item)
				return nil
			}
			mustFail(t, b.Load(t.Context(), item.ID), ErrBusy)
			mustBe(t, "state", b.state(item), after)
			mustBe(t, "ready", after.Ready(), true)
			mustBe(t, "verdict", only(t, b.reserve(item, after.Epoch, one(1))).Verdict, Granted)
		})
	}
}

// A sleeping Load does not open an item that its successor has fenced.
func TestSleepingLoadLeavesASuccessorsFence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 3))
	crash := errors.New("crash")
	other := b.instance()
	other.failpoint = func(at string) error {
		if at == "drained" {
			return crash
		}
		return nil
	}
	b.failpoint = func(at string) error {
		if at == "written" {
			if _, err := b.db.Exec(t.Context(), `UPDATE platform.leases SET expires_at = '-infinity'`); err != nil {
				return err
			}
			mustFail(t, other.Load(t.Context(), item.ID), crash)
		}
		return nil
	}
	mustFail(t, b.Load(t.Context(), item.ID), ErrBusy)
	mustBe(t, "epoch", b.state(item).Epoch, epoch)
	mustBe(t, "gate", b.reserve(item, epoch, one(1)).Gate, Fenced)
	b.failpoint = nil
	b.load(item)
	b.mustBeClean()
}

func TestLostLeaseEndsALoad(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, _ := b.loaded(onSale(1, 3))
	stolen := make(chan struct{})
	b.bus.done = func(uint64) bool {
		select {
		case <-stolen:
		default:
			// Another instance took the item over; the renewal detects it.
			if _, err := b.db.Exec(t.Context(), `UPDATE platform.leases SET token = token + 1`); err != nil {
				t.Error(err)
			}
			close(stolen)
		}
		return false
	}
	mustFail(t, b.Load(t.Context(), item.ID), errLeaseLost)
}
