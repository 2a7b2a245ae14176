package lease

import (
	"context"
	"time"
)

// Turn is a loop's claim to be the only one of its name that works. The loop
// asks Mine before each round and calls Leave when it ends. One goroutine uses it.
type Turn struct {
	DB     DB
	Name   string
	Holder string // the same in each round, another in each process
	// Life is how long the turn is kept without a round: longer than two rounds
	// are apart, so that a busy holder keeps it.
	Life time.Duration

	held Lease
}

// Mine reports whether the next round is this holder's: it renews the lease, or
// takes it if nobody has it. An error means that it is not known, and that the
// round is not to be made.
func (t *Turn) Mine(ctx context.Context) (bool, error) {
	if t.held.Token != 0 {
		if ok, err := Renew(ctx, t.DB, t.held, t.Life); err != nil || ok {
			return ok && err == nil, err
		}
		t.held = Lease{}
	}
	l, ok, err := Acquire(ctx, t.DB, t.Name, t.Holder, t.Life)
	if ok {
		t.held = l
	}
	return ok, err
}

// leaveWithin bounds Leave: a stop waits for it, and a lease that is not given
// back ends by itself.
const leaveWithin = time.Second

// Leave gives the turn to whoever goes on, also when ctx has ended.
func (t *Turn) Leave(ctx context.Context) error {
	if t.held.Token == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	held := t.held
	t.held = Lease{}
	return Release(ctx, t.DB, held)
}
