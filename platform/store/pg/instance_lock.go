package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/store/pg/internal/pgdb"
)

// instanceLockKey names the advisory lock: the ASCII letters "stampede" as a number.
const instanceLockKey = 0x7374616d70656465

// ErrInstanceLocked means that another process with an embedded bus uses the database.
var ErrInstanceLocked = errors.New("another stampede with an embedded NATS serves this database: stop it, or give every instance the same --nats-url")

// InstanceLock is the advisory lock of a process with an embedded bus, the single
// instance on its database. Two of them would each carry half of the messages.
type InstanceLock struct {
	url  string
	mu   sync.Mutex
	conn *pgx.Conn
}

// instanceLockCheck is how often the lock's connection is checked; a takeover in
// between is harmless for that long because each message is in one bus only.
const instanceLockCheck = 2 * time.Second

// AcquireInstanceLock takes the lock or returns ErrInstanceLocked.
func AcquireInstanceLock(ctx context.Context, databaseURL string) (*InstanceLock, error) {
	l := &InstanceLock{url: databaseURL}
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	// Every holder of a lease is dead, or it would hold the lock, so the leases end
	// at once. Their tokens stay, which still fences off a holder that slept.
	if err := pgdb.New(l.conn).EndLeases(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("pg: end the leases of dead holders: %w", err), l.Close(ctx))
	}
	return l, nil
}

// take tries for the lock on a connection of its own, which holds it for as long
// as it lives.
func (l *InstanceLock) take(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, l.url)
	if err != nil {
		return fmt.Errorf("pg: connect for the instance lock: %w", err)
	}
	got, err := pgdb.New(conn).TryLockInstance(ctx, instanceLockKey)
	if err != nil {
		_ = conn.Close(ctx)
		return fmt.Errorf("pg: take the instance lock: %w", err)
	}
	if !got {
		_ = conn.Close(ctx)
		return ErrInstanceLocked
	}
	l.mu.Lock()
	l.conn = conn
	l.mu.Unlock()
	return nil
}

// Watch keeps the lock through losses of its connection until ctx ends. It
// returns ErrInstanceLocked when another process took the lock meanwhile: the caller
// must stop.
func (l *InstanceLock) Watch(ctx context.Context) error {
	tick := time.NewTicker(instanceLockCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		l.mu.Lock()
		err := l.conn.Ping(ctx)
		l.mu.Unlock()
		if err == nil || ctx.Err() != nil {
			continue
		}
		if err := l.take(ctx); errors.Is(err, ErrInstanceLocked) {
			return err
		}
	}
}

// Keep returns a worker's run: it watches, and calls lost with ErrInstanceLocked,
// which must stop the process.
func (l *InstanceLock) Keep(lost func(error)) func(context.Context) error {
	return func(ctx context.Context) error {
		err := l.Watch(ctx)
		if errors.Is(err, ErrInstanceLocked) {
			lost(err)
		}
		return err
	}
}

// Close releases the lock.
func (l *InstanceLock) Close(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Postgres notices a closed connection a moment later; a successor must not be
	// refused in that moment. A connection that is gone has given the lock back.
	_ = pgdb.New(l.conn).UnlockInstance(ctx, instanceLockKey)
	return l.conn.Close(ctx)
}
