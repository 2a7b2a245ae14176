package lease

import (
	"context"
	"time"

	"stampede/platform/store/pg"
)

// Elector performs leader election among loops of the same name, through a
// lease that the leader renews in each round. Not safe for concurrent use.
type Elector struct {
	DB     pg.DB
	Name   string
	Holder string // the same in each round, another in each process
	// TTL is how long a leader stays leader without a round. It must exceed the
	// time between two rounds, so that a busy leader stays leader.
	TTL time.Duration

	held Lease
}

// IsLeader renews the lease, or acquires it when it is free, and reports whether
// this loop may make the next round. After an error the loop must skip the
// round, because another loop may be leader.
func (e *Elector) IsLeader(ctx context.Context) (bool, error) {
	if e.held.Token != 0 {
		if ok, err := Renew(ctx, e.DB, e.held, e.TTL); err != nil || ok {
			return ok && err == nil, err
		}
		e.held = Lease{}
	}
	l, ok, err := Acquire(ctx, e.DB, e.Name, e.Holder, e.TTL)
	if ok {
		e.held = l
	}
	return ok, err
}

// resignTimeout bounds Resign, which delays the stop. A lease that is not
// released expires.
const resignTimeout = time.Second

// Resign releases the lease, so that another loop leads without waiting for its
// expiry. It works after ctx has ended.
func (e *Elector) Resign(ctx context.Context) error {
	if e.held.Token == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
	defer cancel()
	held := e.held
	e.held = Lease{}
	return Release(ctx, e.DB, held)
}
