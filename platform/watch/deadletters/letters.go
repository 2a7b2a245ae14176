// Package deadletters stores the messages that a consumer has given up on, and
// resends them at an operator's request.
//
// A letter is a row with everything needed to send the message again, and an alarm.
// Operators list letters, read one, and redrive one or all of a consumer (Routes). A
// redriven message keeps its id, so an effect that did commit is not repeated
// (platform/store/inbox). The transaction that sends a letter removes it, so of two
// operators who redrive it one gets ErrNotFound. Letters are kept for
// --keep-records.
//
// Letters are the receiving end; events that NATS refuses, before any consumer, are
// platform/watch/messages.
package deadletters

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/deadletters/internal/deadlettersdb"
)

// Letter is a message that a consumer gave up on.
type Letter = deadlettersdb.PlatformDeadLetter

// Filter narrows a list; the zero value matches every letter.
type Filter struct {
	Consumer string
	Before   ids.ID // only older ones; the zero ID is no bound
	Limit    int    // rows; 0 means all
}

// List returns the dead letters that match the filter, newest first.
func List(ctx context.Context, db *pgxpool.Pool, f Filter) ([]Letter, error) {
	list, err := deadlettersdb.New(db).DeadLetters(ctx, deadlettersdb.DeadLettersParams{
		Consumer: f.Consumer, FromNewest: f.Before.IsZero(), Before: f.Before, AtMost: int32(f.Limit), //nolint:gosec // a page
	})
	if err != nil {
		return nil, fmt.Errorf("deadletters: read dead letters: %w", err)
	}
	return list, nil
}

// Get returns one dead letter, or ErrNotFound.
func Get(ctx context.Context, db *pgxpool.Pool, id ids.ID) (Letter, error) {
	d, err := deadlettersdb.New(db).DeadLetter(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Letter{}, ErrNotFound
	}
	if err != nil {
		return Letter{}, fmt.Errorf("deadletters: read dead letter: %w", err)
	}
	return d, nil
}

var alarmDeadLetter = alarm.Define("dead-letter", alarm.Critical,
	fault.T("A consumer gave up on a message after all its attempts. The message is kept.",
		"一个消费者多次处理某条消息失败后放弃，消息已保留。"),
	fault.T("Read the dead letter's error, repair its cause, then redrive the dead letter.",
		"查看死信中的错误，排除原因后重新投递。"))

var alarmNewerEvents = alarm.Define("newer-events", alarm.Critical,
	fault.T("A consumer received events in the layout of a newer version and left them on the stream. What they announce waits.",
		"一个消费者收到了更新版本格式的事件，已将其留在消息流中，事件所通知的事项暂缓处理。"),
	fault.T("Start an instance of the newer version, or finish the upgrade; it handles the events. They are kept for four days.",
		"启动新版本的实例，或完成升级，由其处理这些事件。事件保留四天。"))

// errorBytes bounds the stored error, which may include a panic's stack.
const errorBytes = 8 << 10

// Keep stores a message that consumer gave up on and raises the alarm "dead-letter",
// in one transaction. Repeating it changes only the alarm's count and the error.
func Keep(ctx context.Context, pool *pgxpool.Pool, consumer string, m bus.Msg, cause error) error {
	// Postgres accepts neither broken UTF-8, which truncation may leave, nor NUL.
	reason := cause.Error()
	reason = strings.ReplaceAll(strings.ToValidUTF8(reason[:min(len(reason), errorBytes)], ""), "\x00", "")
	err := pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		err := deadlettersdb.New(tx).KeepDeadLetter(ctx, deadlettersdb.KeepDeadLetterParams{
			ID: ids.New(), Consumer: consumer, Subject: m.Subject, MessageID: messageID(m), Payload: append([]byte{}, m.Data...),
			Error: reason, Attempts: int32(m.Attempt), //nolint:gosec // a consumer gives up long before an overflow
		})
		if err != nil {
			return err
		}
		return alarmDeadLetter.Raise(ctx, tx, consumer, m.Subject+": "+reason)
	})
	if err != nil {
		return fmt.Errorf("deadletters: store letter of %s: %w", consumer, err)
	}
	return nil
}

// Keeper is Keep in the form that the bus calls. Of events that stay on the stream
// for a newer version it raises an alarm only.
func Keeper(pool *pgxpool.Pool) bus.DeadLetters {
	return func(ctx context.Context, consumer string, m bus.Msg, cause error) error {
		if errors.Is(cause, bus.ErrNewer) {
			return alarmNewerEvents.Raise(ctx, pool, consumer, m.Subject+": "+cause.Error())
		}
		return Keep(ctx, pool, consumer, m, cause)
	}
}

// messageID identifies a message without an id by its position, so that two of them
// are stored separately.
func messageID(m bus.Msg) string {
	if m.ID.IsZero() {
		return "seq-" + strconv.FormatUint(m.Seq, 10)
	}
	return m.ID.String()
}
