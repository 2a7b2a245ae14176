package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Lock is one holding of a lock.
type Lock struct {
	locker *Locker
	key    string
	token  string
	until  time.Time
}

// Until is when the holder must stop to rely on the lock, by this process's
// monotonic clock. Work that may last longer asks Extend before then.
func (k *Lock) Until() time.Time { return k.until }

// Extend lets the lock last for a time from now on (100 ms … 1 h). ErrLost says
// that it ran out or is another's: the holder stops what it is doing, and Until
// stays what it was. ErrNoQuorum says that nobody knows; the lock holds until
// Until at least.
func (k *Lock) Extend(ctx context.Context, last time.Duration) error {
	if err := check(k.key, last); err != nil {
		return err
	}
	return k.decided(k.ask(ctx, last, func(ctx context.Context, node redis.UniversalClient) (bool, error) {
		n, err := extendScript.Run(ctx, node, []string{k.key}, k.token, last.Milliseconds()).Int()
		return n == 1, err
	}))
}

// Release gives the lock back on every node that has it. ErrLost says that it was
// over before, so that another may have worked at the same time; nothing of that
// other's is touched.
func (k *Lock) Release(ctx context.Context) error {
	return k.decided(k.ask(ctx, 0, func(ctx context.Context, node redis.UniversalClient) (bool, error) {
		n, err := releaseScript.Run(ctx, node, []string{k.key}, k.token).Int()
		return n == 1, err
	}))
}

// decided names what the nodes said of a lock that was held.
func (k *Lock) decided(ok bool, errs []error) error {
	switch {
	case ok:
		return nil
	case len(errs) > len(k.locker.nodes)-k.locker.quorum():
		return fmt.Errorf("%w: %w", ErrNoQuorum, errors.Join(errs...))
	default:
		return ErrLost
	}
}

// ask puts a question to every node at once and reports whether a majority said
// yes, within what the answer is good for: a time of 0 asks for no such bound. It
// returns when all have answered or are too late, so that nothing arrives behind
// the caller's next step.
func (k *Lock) ask(ctx context.Context, last time.Duration, question func(context.Context, redis.UniversalClient) (bool, error)) (bool, []error) {
	l := k.locker
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, l.cfg.NodeTimeout)
	defer cancel()
	type reply struct {
		yes bool
		err error
	}
	replies := make(chan reply, len(l.nodes))
	for _, node := range l.nodes {
		go func() {
			yes, err := question(ctx, node)
			replies <- reply{yes, err}
		}()
	}
	votes := 0
	var errs []error
	for range l.nodes {
		r := <-replies
		if r.err != nil {
			errs = append(errs, r.err)
		} else if r.yes {
			votes++
		}
	}
	if votes < l.quorum() {
		return false, errs
	}
	if last == 0 {
		return true, errs
	}
	until := start.Add(last - time.Duration(float64(last)*driftShare) - driftLeast)
	if !time.Now().Before(until) {
		return false, errs // the nodes took longer to answer than the lock lasts
	}
	k.until = until
	return true, errs
}
