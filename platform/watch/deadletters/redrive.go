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

// ErrNotFound means that the dead letter does not exist, or no longer exists.
var ErrNotFound = fault.Plain(fault.NotFound,
	fault.T("There is no such dead letter; another operator may already have redriven it.", "没有该死信，可能已由其他运营人员重新投递。"))

// Redrive sends a dead letter again, to its consumer only, with a full number of
// attempts and its original id, so that an effect that did commit is not repeated.
// The letter is removed once the message is certain to be sent; if the consumer
// gives up again, a new one is written. It is audited as an action of the principal
// in ctx, in the transaction that removes the letter. It returns ErrNotFound for an
// unknown id; after any other error the letter still exists.
func Redrive(ctx context.Context, pool *pgxpool.Pool, b *bus.Bus, id ids.ID) error {
	d, err := Get(ctx, pool, id)
	switch {
	case err != nil:
	case b.OnQueue(d.Subject):
		err = redriveGrants(ctx, pool, b, id, d)
	default:
		err = redriveEvent(ctx, pool, id, d)
	}
	if err != nil {
		return fmt.Errorf("deadletters: redrive %s: %w", id, err)
	}
	return nil
}

// redriveEvent sends by the outbox, in the transaction that removes the letter.
func redriveEvent(ctx context.Context, pool *pgxpool.Pool, id ids.ID, d Letter) error {
	return pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		if err := remove(ctx, tx, id, d); err != nil {
			return err
		}
		_, err := outbox.Append(ctx, tx, bus.RedriveSubject(d.Consumer, d.MessageID, d.Subject), d.Payload)
		return err
	})
}

// remove deletes a letter and audits who sent it again. It returns ErrNotFound when
// another request was faster.
func remove(ctx context.Context, tx pgx.Tx, id ids.ID, d Letter) error {
	removed, err := deadlettersdb.New(tx).RemoveDeadLetter(ctx, id)
	if err != nil {
		return err
	}
	if removed == 0 {
		return ErrNotFound
	}
	return audit.Record(ctx, tx, "dead-letter.redrive", "dead letter "+id.String(),
		audit.Change{Before: map[string]string{"consumer": d.Consumer, "subject": d.Subject, "message_id": d.MessageID}})
}

// redriveGrants publishes to the letter's original subject, because only the writer
// consumes it and the writer consumes nothing else, and removes the letter after the
// acknowledgement. A failure in between only sends the same message twice: the writer
// identifies a batch by the id in its payload and a grant by its number.
//
// The message's id is the letter's and not the original one: under the original id the
// stream would drop the message as a duplicate for two minutes, and a letter written
// again in that time would be this row, which is then removed.
func redriveGrants(ctx context.Context, pool *pgxpool.Pool, b *bus.Bus, id ids.ID, d Letter) error {
	if err := b.Publish(ctx, d.Subject, id, d.Payload); err != nil {
		return err
	}
	return pg.InTx(ctx, pool, func(tx pgx.Tx) error { return remove(ctx, tx, id, d) })
}
