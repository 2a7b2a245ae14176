package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/app"
	"stampede/platform/store/outbox/internal/outboxdb"
	"stampede/platform/store/pg"
)

const (
	// keepDays is how long the rows of the outbox and the inbox stay: longer than
	// EVENTS keeps a message (4 days), so that nothing can be delivered whose
	// inbox row is gone.
	keepDays = 7
	// aheadDays is how many days have their partition beforehand: a week of
	// failures goes by before rows land in the default partition.
	aheadDays = 7
	// houseEvery is a few times a day, so that one that fails is made up for.
	houseEvery = 6 * time.Hour
	// houseRetry follows one that failed.
	houseRetry = 5 * time.Minute
	// lockWait bounds how long dropping a partition may stand in the lock queue:
	// everybody who writes to the table stands behind it.
	lockWait = 200 * time.Millisecond
	// recordsAtMost bounds what one statement deletes, so that it holds its row
	// locks for a moment only.
	recordsAtMost = 10_000
)

// dayPartition is the name that the database's own function gives.
var dayPartition = regexp.MustCompile(`^(outbox|inbox)_(\d{8})$`)

// Housekeeper makes the coming days' partitions of outbox and inbox, drops
// those older than a week, and removes old alarms and dead letters. Several may
// run: each step can be repeated. What is never removed: orders, payments and
// their ledger, stock, activities, the audit log, and leases, whose tokens must
// not begin again.
type Housekeeper struct {
	pool *pgxpool.Pool
	log  *slog.Logger
	keep time.Duration
}

// NewHousekeeper makes one that keeps dead letters, and alarms that are not seen any
// more, for a time.
func NewHousekeeper(pool *pgxpool.Pool, keep time.Duration, log *slog.Logger) *Housekeeper {
	return &Housekeeper{pool: pool, log: log, keep: keep}
}

// Run keeps house at once and every six hours until ctx ends, then returns nil.
func (h *Housekeeper) Run(ctx context.Context) error {
	return app.Loop{Every: houseEvery, Retry: houseRetry, Do: h.Tidy, Log: h.log, Failed: "partitions are not tidy yet"}.Run(ctx)
}

// Tidy makes one round. An old outbox partition with unsent rows stays, and
// is reported as an error.
func (h *Housekeeper) Tidy(ctx context.Context) error {
	if err := outboxdb.New(h.pool).EnsureDayPartitions(ctx, aheadDays); err != nil {
		return fmt.Errorf("outbox: create partitions: %w", err)
	}
	// Not by sqlc, as in drop.
	found, err := h.pool.Query(ctx, `
		SELECT child.relname, (now() AT TIME ZONE 'UTC')::date - $1::int
		FROM pg_inherits i
		JOIN pg_class child ON child.oid = i.inhrelid
		WHERE i.inhparent IN ('platform.outbox'::regclass, 'platform.inbox'::regclass)`, keepDays)
	if err != nil {
		return fmt.Errorf("outbox: list partitions: %w", err)
	}
	type partition struct {
		Name   string
		Oldest time.Time
	}
	all, err := pgx.CollectRows(found, pgx.RowToStructByPos[partition])
	if err != nil {
		return fmt.Errorf("outbox: list partitions: %w", err)
	}
	var errs []error
	for _, p := range all {
		part := dayPartition.FindStringSubmatch(p.Name)
		if part == nil {
			continue
		}
		if day, err := time.Parse("20060102", part[2]); err != nil || !day.Before(p.Oldest) {
			continue
		}
		errs = append(errs, h.drop(ctx, part[1], p.Name))
	}
	return errors.Join(append(errs, h.emptyDefaults(ctx), h.forgetRecords(ctx))...)
}

// drop removes one partition in a transaction of its own, so that its lock is
// held for a moment only. Statements that name it, and SET, take no parameters,
// and sqlc knows no catalogues: they are composed here.
func (h *Housekeeper) drop(ctx context.Context, base, name string) error {
	table := pgx.Identifier{"platform", name}.Sanitize()
	err := pg.InTx(ctx, h.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL lock_timeout = %d`, lockWait.Milliseconds())); err != nil {
			return err
		}
		// One instance at a time; whoever comes second finds the table gone.
		if err := outboxdb.New(tx).LockDayPartitions(ctx); err != nil {
			return err
		}
		var exists bool
		// Not to_regclass, which may answer from the session's cache.
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_class
			WHERE relnamespace = 'platform'::regnamespace AND relname = $1)`, name).Scan(&exists); err != nil || !exists {
			return err
		}
		if base == "outbox" {
			// Rows get the day of their making, so none can be added to an old one.
			var unsent bool
			if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+table+` WHERE sent_at IS NULL)`).Scan(&unsent); err != nil {
				return err
			}
			if unsent {
				return errors.New("it has unsent rows")
			}
		}
		if _, err := tx.Exec(ctx, `DROP TABLE `+table); err != nil {
			return err
		}
		h.log.InfoContext(ctx, "old partition dropped", "partition", name)
		return nil
	})
	if err != nil {
		return fmt.Errorf("outbox: drop partition %s: %w", name, err)
	}
	return nil
}

// emptyDefaults removes old rows from the default partitions, where they land
// when a day had no partition of its own.
func (h *Housekeeper) emptyDefaults(ctx context.Context) error {
	q := outboxdb.New(h.pool)
	if err := errors.Join(q.EmptyOutboxDefault(ctx, keepDays), q.EmptyInboxDefault(ctx, keepDays)); err != nil {
		return fmt.Errorf("outbox: empty default partition: %w", err)
	}
	return nil
}

// forgetRecords removes alarms and dead letters that are older than keep, a
// bounded number at a time. A dead letter that nobody sent again in all that
// time is lost with this; its alarm was there for as long.
func (h *Housekeeper) forgetRecords(ctx context.Context) error {
	q := outboxdb.New(h.pool)
	for what, remove := range map[string]func() (int64, error){
		"alarms": func() (int64, error) {
			return q.RemoveOldAlarms(ctx, outboxdb.RemoveOldAlarmsParams{Keep: h.keep, AtMost: recordsAtMost})
		},
		"dead letters": func() (int64, error) {
			return q.RemoveOldDeadLetters(ctx, outboxdb.RemoveOldDeadLettersParams{Keep: h.keep, AtMost: recordsAtMost})
		},
	} {
		for removed := int64(recordsAtMost); removed == recordsAtMost; {
			var err error
			if removed, err = remove(); err != nil {
				return fmt.Errorf("outbox: remove old %s: %w", what, err)
			}
			if removed > 0 {
				h.log.InfoContext(ctx, "old records removed", "what", what, "rows", removed)
			}
		}
	}
	return nil
}
