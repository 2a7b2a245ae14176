package inbox

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/alarm"
	"stampede/platform/bus"
	"stampede/platform/ids"
	"stampede/platform/pg"
)

// errorBytes bounds the stored reason; a panic's stack comes with it.
const errorBytes = 8 << 10

// Dead keeps a message that consumer gave up on and raises the alarm
// "dead-letter", in one transaction. Repeating it changes nothing but the count
// of the alarm and the reason.
func Dead(ctx context.Context, pool *pgxpool.Pool, consumer string, m bus.Msg, cause error) error {
	// Postgres takes neither broken UTF-8, which a cut may leave, nor NUL.
	reason := cause.Error()
	reason = strings.ReplaceAll(strings.ToValidUTF8(reason[:min(len(reason), errorBytes)], ""), "\x00", "")
	err := pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO platform.dead_letters (id, consumer, subject, message_id, payload, error, attempts)
			VALUES ($1, $2, $3, $4, $5, $6, $7)
			ON CONFLICT (consumer, message_id) DO UPDATE SET error = excluded.error, attempts = excluded.attempts`,
			ids.New(), consumer, m.Subject, messageID(m), append([]byte{}, m.Data...), reason, m.Attempt)
		if err != nil {
			return err
		}
		return alarm.Raise(ctx, tx, alarm.DeadLetter, consumer, m.Subject+": "+reason)
	})
	if err != nil {
		return fmt.Errorf("inbox: keep dead letter of %s: %w", consumer, err)
	}
	return nil
}

// DeadLetters is Dead as the bus wants it.
func DeadLetters(pool *pgxpool.Pool) bus.DeadLetters {
	return func(ctx context.Context, consumer string, m bus.Msg, cause error) error {
		return Dead(ctx, pool, consumer, m, cause)
	}
}

// messageID names a message without an id by its place, so that two of them
// are kept apart.
func messageID(m bus.Msg) string {
	if m.ID.IsZero() {
		return "seq-" + strconv.FormatUint(m.Seq, 10)
	}
	return m.ID.String()
}
