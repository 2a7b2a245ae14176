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

// InstanceLock is the advisory lock of a process with an embedded bus, which
// must be the only instance on its database. Two of them would each carry part
// of the messages.
type InstanceLock struct {
	url  string
	mu   sync.Mutex
	conn *pgx.Conn
}

// instanceLockCheck is how often the lock's connection is checked; a takeover
// is harmless for that long because each message is in one bus only.
const instanceLockCheck = 2 * time.Second

// AcquireInstanceLock takes the lock or returns ErrInstanceLocked.
func AcquireInstanceLock(ctx context.Context, databaseURL string) (*InstanceLock, error) {
	l := &InstanceLock{url: databaseURL}
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	// Every lease holder is dead, or it would hold the lock, so end the leases
	// now. Their tokens stay, which still fences off a holder that slept.
	if err := pgdb.New(l.conn).EndLeases(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("pg: end the leases of dead holders: %w", err), l.Close(ctx))
	}
	return l, nil
}

// take tries to acquire the lock on a dedicated connection, which holds it for
// as long as it is open.
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

// Watch reacquires the lock after losses of its connection until ctx ends. It
// returns ErrInstanceLocked if another process took the lock meanwhile: the
// caller must stop.
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

// Keep returns a worker's Run function: it calls Watch, and calls lost with
// ErrInstanceLocked, which must stop the process.
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
	// Unlock explicitly: Postgres notices a closed connection only a moment
	// later, and a successor must not be refused in that moment. A lost
	// connection has already released the lock.
	_ = pgdb.New(l.conn).UnlockInstance(ctx, instanceLockKey)
	return l.conn.Close(ctx)
}
