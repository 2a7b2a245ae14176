package pg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/app"
	"stampede/platform/store/pg/internal/pgdb"
)

// instanceLockKey names the advisory lock: the ASCII letters "stampede" as a number.
const instanceLockKey = 0x7374616d70656465

// instanceLockName begins the application_name of the sessions that hold the
// lock; the holder's own random name follows.
const instanceLockName = "stampede instance lock "

// ErrInstanceLocked means that another process uses the database, and that it or this one has an embedded bus.
var ErrInstanceLocked = errors.New("another stampede serves this database, and one with an embedded NATS must be alone: " +
	"stop it, or give every instance the same --nats-url")

// InstanceLock is the advisory lock of a process that serves a database. With an
// embedded bus it must be the only instance, because two would each carry part of
// the messages: it holds the lock alone. Instances with a common bus share it.
//
// The session of a connection that broke may hold the lock for as long as
// Postgres, or a proxy in between, does not notice. A process ends such sessions
// of its own at once: the session's application_name contains the process's
// random name. It ends another's only if that one has stayed silent for
// instanceLockSilence, see the ADR on bounded locks.
type InstanceLock struct {
	cfg    *pgx.ConnConfig
	name   string
	shared bool // among the instances with a common bus
	log    *slog.Logger

	check, silence time.Duration // the constants, except in tests

	mu   sync.Mutex
	conn *pgx.Conn
}

const (
	// instanceLockCheck is how often the lock's connection is checked; a takeover
	// is harmless for that long because each message is in one bus only. The
	// checks are also the holder's sign of life.
	instanceLockCheck = 2 * time.Second
	// instanceLockSilence is how long a start sees no check of another holder
	// before it ends the holder's session: seven checks, and as long as any
	// other transaction of a frozen client lives. A holder whose connection broke
	// is back sooner.
	instanceLockSilence = 15 * time.Second
	// instanceLockAnswer bounds one call to Postgres on the lock's connection.
	// Below instanceLockSilence by enough for a check, a new connection and a
	// second try.
	instanceLockAnswer = 3 * time.Second
)

// HoldInstanceLock takes the lock, alone or shared, and keeps it while a runs, or returns
// ErrInstanceLocked; it waits up to 20 s for a holder that shows no sign of life.
// It calls lost with ErrInstanceLocked when another process has taken the lock,
// which must stop this one.
func HoldInstanceLock(ctx context.Context, databaseURL string, shared bool, log *slog.Logger, a *app.App, lost func(error)) error {
	l, err := acquire(ctx, databaseURL, shared, log, instanceLockCheck, instanceLockSilence)
	if err != nil {
		return err
	}
	a.OnStop("instance lock", l.Close)
	a.Go("instance lock watch", app.Worker{Name: "instance-lock", Run: func(ctx context.Context) error {
		err := l.Watch(ctx)
		if errors.Is(err, ErrInstanceLocked) {
			lost(err)
		}
		return err
	}})
	return nil
}

func acquire(ctx context.Context, databaseURL string, shared bool, log *slog.Logger, check, silence time.Duration) (*InstanceLock, error) {
	cfg, err := connConfig(databaseURL)
	if err != nil {
		return nil, err
	}
	l := &InstanceLock{cfg: cfg, name: instanceLockName + rand.Text()[:16], shared: shared, log: log, check: check, silence: silence}
	bound(cfg, l.name)
	if err := l.take(ctx, silence); err != nil {
		return nil, err
	}
	if shared {
		return l, nil
	}
	// Every lease holder is dead or cut off, or it would hold the lock, so end
	// the leases now. Their tokens stay, which still fences off a holder that
	// slept.
	if err := pgdb.New(l.conn).EndLeases(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("pg: end the leases of dead holders: %w", err), l.Close(ctx))
	}
	return l, nil
}

// take acquires the lock on a dedicated connection, which holds it for as long
// as its session lives. It ends the session of a holder that it has watched
// without a sign of life for silence; 0 means that every other holder counts as
// alive.
func (l *InstanceLock) take(ctx context.Context, silence time.Duration) error {
	conn, err := pgx.ConnectConfig(ctx, l.cfg)
	if err != nil {
		return fmt.Errorf("pg: connect for the instance lock: %w", err)
	}
	if err := l.takeOn(ctx, conn, silence); err != nil {
		drop(ctx, conn)
		return err
	}
	l.mu.Lock()
	before := l.conn
	l.conn = conn
	l.mu.Unlock()
	if before != nil {
		drop(ctx, before)
	}
	return nil
}

func (l *InstanceLock) takeOn(ctx context.Context, conn *pgx.Conn, silence time.Duration) error {
	var first holder
	looks := 0 // since first, answered each; not a time, which a pause of the whole machine would add to
	for {
		got, now, err := l.try(ctx, conn)
		switch {
		case err != nil:
			return fmt.Errorf("pg: take the instance lock: %w", err)
		case got:
			return nil
		case now.pid == 0: // released meanwhile
		case now.name == l.name:
			l.log.WarnContext(ctx, "old session of this process has the instance lock, ending it", "pid", now.pid)
			if err := l.end(ctx, conn, now); err != nil {
				return err
			}
			continue
		case silence == 0 || !strings.HasPrefix(now.name, instanceLockName) || now.heard == "":
			return ErrInstanceLocked
		case looks == 0:
			first = now
			l.log.InfoContext(ctx, "another session has the instance lock, waiting for its sign of life", "pid", now.pid, "at_most", silence.String())
		case now != first:
			return ErrInstanceLocked // heard again, or another one took the lock
		case time.Duration(looks)*l.pause() >= silence:
			l.log.WarnContext(ctx, "holder of the instance lock is silent, ending its session", "pid", now.pid)
			if err := l.end(ctx, conn, now); err != nil {
				return err
			}
			looks = 0 // another one may share it
			continue
		}
		looks++
		if err := app.Sleep(ctx, l.pause()); err != nil {
			return err
		}
	}
}

// pause is the time between two looks at another holder.
func (l *InstanceLock) pause() time.Duration { return l.check / 2 }

// holder is a session that has the lock, of several that share it the one with the lowest pid.
type holder struct {
	pid     int32
	name    string
	started string // with pid it identifies the session
	heard   string // when Postgres last heard it; empty if this role may not know
}

// try takes the lock or says which session has it; a zero pid means that it was
// released meanwhile. A stop does not interrupt it: the session would keep a lock
// that Close does not know of.
func (l *InstanceLock) try(ctx context.Context, conn *pgx.Conn) (got bool, by holder, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), instanceLockAnswer)
	defer cancel()
	got, err = pgdb.New(conn).TryLockInstance(ctx, pgdb.TryLockInstanceParams{Shared: l.shared, Key: instanceLockKey})
	if err != nil || got {
		return got, holder{}, err
	}
	// Not generated: sqlc does not know the catalogs.
	err = conn.QueryRow(ctx, `
		SELECT a.pid, coalesce(a.application_name, ''), coalesce(a.backend_start::text, ''), coalesce(a.state_change::text, '')
		FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
		  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
		  AND (l.classid::bigint << 32 | l.objid::bigint) = $1
		ORDER BY a.pid LIMIT 1`, int64(instanceLockKey)).Scan(&by.pid, &by.name, &by.started, &by.heard)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, holder{}, nil
	}
	return false, by, err
}

// end ends a session, unless its pid belongs to another one by now, and waits
// until it is gone.
func (l *InstanceLock) end(ctx context.Context, conn *pgx.Conn, h holder) error {
	ctx, cancel := context.WithTimeout(ctx, 2*instanceLockAnswer)
	defer cancel()
	ended := true // if there is no such session
	err := conn.QueryRow(ctx, `SELECT pg_terminate_backend(pid, $3) FROM pg_stat_activity WHERE pid = $1 AND backend_start::text = $2`,
		h.pid, h.started, instanceLockAnswer.Milliseconds()).Scan(&ended)
	if err == nil && !ended {
		err = errors.New("it does not end")
	}
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("pg: end session %d, which has the instance lock: %w", h.pid, err)
	}
	return nil
}

// drop closes a connection without waiting for a server that does not answer.
func drop(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), instanceLockAnswer)
	defer cancel()
	_ = conn.Close(ctx) // the session ends with it, or is ended by pid
}

// Watch reacquires the lock after losses of its connection until ctx ends. It
// returns ErrInstanceLocked if another process took the lock meanwhile: the
// caller must stop.
func (l *InstanceLock) Watch(ctx context.Context) error {
	tick := time.NewTicker(l.check)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := l.ping(ctx); err == nil || ctx.Err() != nil {
			continue
		}
		if err := l.take(ctx, 0); errors.Is(err, ErrInstanceLocked) {
			return err
		}
	}
}

// ping checks the connection and is the holder's sign of life. A connection
// that does not answer in time is closed by it. A stop does not interrupt it, which
// would close the connection too, and Close could not release the lock.
func (l *InstanceLock) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), instanceLockAnswer)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn.Ping(ctx)
}

// Close releases the lock.
func (l *InstanceLock) Close(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Unlock explicitly: Postgres notices a closed connection only a moment
	// later, and a successor must not be refused in that moment. A lost
	// connection has already released the lock, or a successor ends its session.
	_ = pgdb.New(l.conn).UnlockInstance(ctx)
	return l.conn.Close(ctx)
}
