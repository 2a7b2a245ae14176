package deadletters

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
	"stampede/platform/watch/deadletters/internal/deadlettersdb"
)

// ErrNotFound means that there is no such dead letter, or no more.
var ErrNotFound = fault.Plain(fault.NotFound, "There is no such dead letter; somebody may have redriven it already.")

// Redrive sends a dead letter again, to its consumer alone, with a full count
// of attempts and the id of the first time, so that an effect which did commit
// is not repeated. The letter is gone once the message is sure to go out; when
// the consumer gives up again, a new one is written. It is audited as an action
// of the principal in ctx, in the transaction that removes the letter. Returns
// ErrNotFound for an unknown id; after any other error the letter is still there.
func Redrive(ctx context.Context, pool *pgxpool.Pool, b *bus.Bus, id ids.ID) error {
	d, err := Get(ctx, pool, id)
	switch {
	case err != nil:
	case bus.OnGrants(d.Subject):
		err = redriveGrants(ctx, pool, b, id, d)
	default:
		err = redriveEvent(ctx, pool, id, d)
	}
	if err != nil {
		return fmt.Errorf("deadletters: redrive %s: %w", id, err)
	}
	return nil
}

// redriveEvent goes by the outbox, in the commit that removes the letter.
func redriveEvent(ctx context.Context, pool *pgxpool.Pool, id ids.ID, d Letter) error {
	return pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		if err := remove(ctx, tx, id, d); err != nil {
			return err
		}
		_, err := outbox.Append(ctx, tx, bus.RedriveSubject(d.Consumer, d.MessageID, d.Subject), d.Payload)
		return err
	})
}

// remove takes a letter away and writes down who sent it again. It returns
// ErrNotFound when somebody else was faster.
func remove(ctx context.Context, tx pgx.Tx, id ids.ID, d Letter) error {
	removed, err := deadlettersdb.New(tx).RemoveDeadLetter(ctx, id)
	if err != nil {
		return err
	}
	if removed == 0 {
		return ErrNotFound
	}
	return audit.Record(ctx, tx, "dead-letter.redrive", "dead letter "+id.String(),
		map[string]string{"consumer": d.Consumer, "subject": d.Subject, "message_id": d.MessageID})
}

// redriveGrants publishes to the letter's own subject, because nobody but the
// writer consumes it and the writer consumes nothing else, and removes the
// letter after the acknowledgement. Whatever comes in between only sends the
// same twice: the writer knows a batch by the id in its payload and a grant by
// its number.
//
// The message's id is the letter's and not that of the first time: under that
// one the stream would drop it as a duplicate for two minutes, and a letter that
// is written again meanwhile would be this row, which is then removed.
func redriveGrants(ctx context.Context, pool *pgxpool.Pool, b *bus.Bus, id ids.ID, d Letter) error {
	if err := b.Publish(ctx, d.Subject, id, d.Payload); err != nil {
		return err
	}
	return pg.InTx(ctx, pool, func(tx pgx.Tx) error { return remove(ctx, tx, id, d) })
}
