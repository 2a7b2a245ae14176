package pg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// aloneKey is the advisory lock that says "this process carries the messages of
// this database itself": the ASCII letters "stampede" as a number.
const aloneKey = 0x7374616d70656465

// ErrNotAlone means that another process without a NATS URL uses the database.
var ErrNotAlone = errors.New("another stampede with an embedded NATS serves this database: stop it, or give every instance the same --nats-url")

// Alone holds the advisory lock of a process with an embedded bus. Two of them
// on one database would each carry half of the messages.
type Alone struct {
	url  string
	mu   sync.Mutex
	conn *pgx.Conn
}

// aloneCheck is how often the lock's connection is looked after; a takeover in
// between is harmless for that long because each message is in one bus only.
const aloneCheck = 2 * time.Second

// BeAlone takes the lock or returns ErrNotAlone.
func BeAlone(ctx context.Context, databaseURL string) (*Alone, error) {
	a := &Alone{url: databaseURL}
	if err := a.take(ctx); err != nil {
		return nil, err
	}
	// Whoever held a lease is dead, or it would hold the lock: nobody has to wait
	// until the leases run out. Their tokens stay, so a sleeper is still told apart.
	if _, err := a.conn.Exec(ctx, `UPDATE platform.leases SET expires_at = now() WHERE expires_at > now()`); err != nil {
		return nil, errors.Join(fmt.Errorf("pg: end the leases of dead holders: %w", err), a.Close(ctx))
	}
	return a, nil
}

// take tries for the lock on a connection of its own, which holds it for as long
// as it lives.
func (a *Alone) take(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, a.url)
	if err != nil {
		return fmt.Errorf("pg: connect for the instance lock: %w", err)
	}
	var got bool
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, int64(aloneKey)).Scan(&got); err != nil {
		_ = conn.Close(ctx)
		return fmt.Errorf("pg: take the instance lock: %w", err)
	}
	if !got {
		_ = conn.Close(ctx)
		return ErrNotAlone
	}
	a.mu.Lock()
	a.conn = conn
	a.mu.Unlock()
	return nil
}

// Watch keeps the lock through losses of its connection until ctx ends. It
// returns ErrNotAlone when another process took the lock meanwhile: the caller
// must stop.
func (a *Alone) Watch(ctx context.Context) error {
	tick := time.NewTicker(aloneCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		a.mu.Lock()
		err := a.conn.Ping(ctx)
		a.mu.Unlock()
		if err == nil || ctx.Err() != nil {
			continue
		}
		if err := a.take(ctx); errors.Is(err, ErrNotAlone) {
			return err
		}
	}
}

// Keep returns a worker's run: it watches, and calls lost with ErrNotAlone, which
// must stop the process, because two embedded buses on one database would each
// carry half of the messages.
func (a *Alone) Keep(lost func(error)) func(context.Context) error {
	return func(ctx context.Context) error {
		err := a.Watch(ctx)
		if errors.Is(err, ErrNotAlone) {
			lost(err)
		}
		return err
	}
}

// Close gives the lock back.
func (a *Alone) Close(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	// Postgres notices a closed connection a moment later; a successor must not be
	// refused in that moment. A connection that is gone has given the lock back.
	_, _ = a.conn.Exec(ctx, `SELECT pg_advisory_unlock($1)`, int64(aloneKey))
	return a.conn.Close(ctx)
}
