// Package lease lets one process at a time do a job, with a token that fences
// off a holder that slept through its lease.
package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/app"
	"stampede/platform/store/lease/internal/leasedb"
	"stampede/platform/store/pg"
)

// Lease is the right to do a job until it expires by Postgres's clock.
type Lease struct {
	Name   string
	Holder string
	// Token rises with every acquisition of the name and never falls: code that
	// writes under a lease stores the token and refuses a lower one.
	Token int64
}

// Acquire takes the lease called name for ttl, or reports ok = false while
// another holder has it. It is not re-entrant: two goroutines of one holder
// exclude each other as two processes do. Only Postgres's clock is used, so the
// processes' clocks do not matter.
func Acquire(ctx context.Context, db pg.DB, name, holder string, ttl time.Duration) (l Lease, ok bool, err error) {
	l = Lease{Name: name, Holder: holder}
	l.Token, err = leasedb.New(db).AcquireLease(ctx, leasedb.AcquireLeaseParams{Name: name, Holder: holder, Life: ttl})
	if errors.Is(err, pgx.ErrNoRows) {
		return Lease{}, false, nil
	}
	if err != nil {
		return Lease{}, false, fmt.Errorf("lease: acquire %s: %w", name, err)
	}
	return l, true, nil
}

// Renew extends a lease to ttl from now and reports whether it still belongs to
// this holder. An expired lease that has not been acquired since is renewed:
// its token is still the highest, so no other holder has worked in between.
func Renew(ctx context.Context, db pg.DB, l Lease, ttl time.Duration) (bool, error) {
	renewed, err := leasedb.New(db).RenewLease(ctx, leasedb.RenewLeaseParams{Name: l.Name, Token: l.Token, Life: ttl})
	if err != nil {
		return false, fmt.Errorf("lease: renew %s: %w", l.Name, err)
	}
	return renewed == 1, nil
}

// Release ends a lease so that the next holder need not wait for its expiry.
// The row stays, because the token must not start over. Releasing a lease that
// another holder has taken over has no effect.
func Release(ctx context.Context, db pg.DB, l Lease) error {
	err := leasedb.New(db).ReleaseLease(ctx, leasedb.ReleaseLeaseParams{Name: l.Name, Token: l.Token})
	if err != nil {
		return fmt.Errorf("lease: release %s: %w", l.Name, err)
	}
	return nil
}

// releaseTimeout bounds a release, which delays a stop, by what the statement may wait for a lock. A lease that is not
// released expires.
const releaseTimeout = 5 * time.Second

// ErrLost ends work whose lease could not be renewed.
var ErrLost = errors.New("lease: it expired before it could be renewed")

// Hold runs work while holder has the lease called name, or reports ok = false
// while another holder has it. It renews the lease every third of ttl. When the
// lease is lost, work's context ends, and the error is ErrLost with work's own.
func Hold(
	ctx context.Context, db pg.DB, log *slog.Logger, name, holder string, ttl time.Duration, work func(ctx context.Context, token int64) error,
) (ok bool, err error) {
	asked := time.Now()
	l, ok, err := Acquire(ctx, db, name, holder, ttl)
	if err != nil || !ok {
		return false, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { cancel(keep(ctx, db, l, ttl, asked)) })
	err = work(ctx, l.Token)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrLost) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	cancel(nil)
	renewing.Wait()
	// The next holder should not have to wait for the expiry, even if work ended because its caller did.
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), min(ttl, releaseTimeout))
	defer stop()
	if err := Release(end, db, l); err != nil {
		log.WarnContext(ctx, "lease not released, it will expire", "lease", name, "error", err)
	}
	return true, err
}

// Campaign runs work whenever the lease called name is free, until ctx ends: one process works and the others stand by,
// of which one takes over ttl after the worker has died. failed is logged when work or the lease fails.
func Campaign(
	ctx context.Context, db pg.DB, log *slog.Logger, name, holder string, ttl time.Duration, failed string,
	work func(ctx context.Context, token int64) error,
) error {
	return app.Loop{
		Every: ttl / 3, Log: log, Failed: failed,
		Do: func(ctx context.Context) error {
			if _, err := Hold(ctx, db, log, name, holder, ttl, work); ctx.Err() == nil {
				return err
			}
			return nil // the end of ctx is no outage
		},
	}.Run(ctx)
}

// Lead runs a loop by Campaign. A loop ends without an error when the lease is lost, so ctx says it.
func Lead(ctx context.Context, db pg.DB, name, holder string, ttl time.Duration, loop app.Loop) error {
	return Campaign(ctx, db, loop.Log, name, holder, ttl, loop.Failed, func(ctx context.Context, _ int64) error {
		return cmp.Or(loop.Run(ctx), ctx.Err())
	})
}

// keep renews a lease, which was asked for at a time, until ctx ends, and returns
// ErrLost if it is lost before. A renewal that fails says nothing about the lease,
// so it is tried again, four times as often, until ttl has passed since the last
// one that succeeded was asked for.
func keep(ctx context.Context, db pg.DB, l Lease, ttl time.Duration, asked time.Time) error {
	expires, pause := asked.Add(ttl), ttl/3
	for app.Sleep(ctx, min(pause, time.Until(expires))) == nil {
		asked = time.Now()
		// One that hangs leaves time for another.
		try, stop := context.WithTimeout(ctx, min(ttl/3, time.Until(expires)))
		ok, err := Renew(try, db, l, ttl)
		stop()
		switch {
		case err == nil && ok:
			expires, pause = asked.Add(ttl), ttl/3
		case err == nil || !time.Now().Before(expires):
			return errors.Join(ErrLost, err)
		default:
			pause = ttl / 12
		}
	}
	return ctx.Err()
}
