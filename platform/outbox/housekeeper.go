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

	"stampede/platform/pg"
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
	// DefaultKeep is how long alarms and dead letters are kept: a quarter, so that
	// the last campaign's can be read before the next one.
	DefaultKeep = 90 * 24 * time.Hour
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

// NewHousekeeper makes one that keeps alarms and dead letters for DefaultKeep.
func NewHousekeeper(pool *pgxpool.Pool, log *slog.Logger) *Housekeeper {
	return &Housekeeper{pool: pool, log: log, keep: DefaultKeep}
}

// Keep sets how long alarms that are not seen any more and dead letters are
// kept, and returns the housekeeper. It must be called before Run.
func (h *Housekeeper) Keep(keep time.Duration) *Housekeeper {
	h.keep = keep
	return h
}

// Run keeps house at once and every six hours until ctx ends, then returns nil.
func (h *Housekeeper) Run(ctx context.Context) error {
	for {
		pause := houseEvery
		if err := h.Tidy(ctx); err != nil && ctx.Err() == nil {
			h.log.WarnContext(ctx, "partitions are not tidy yet", "error", err)
			pause = houseRetry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// Tidy makes one round. An old outbox partition with unsent rows stays, and
// is reported as an error.
func (h *Housekeeper) Tidy(ctx context.Context) error {
	if _, err := h.pool.Exec(ctx, `SELECT platform.ensure_day_partitions($1)`, aheadDays); err != nil {
		return fmt.Errorf("outbox: create partitions: %w", err)
	}
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
// held for a moment only.
func (h *Housekeeper) drop(ctx context.Context, base, name string) error {
	table := pgx.Identifier{"platform", name}.Sanitize()
	err := pg.InTx(ctx, h.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL lock_timeout = %d`, lockWait.Milliseconds())); err != nil {
			return err
		}
		// One instance at a time; whoever comes second finds the table gone.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('platform.ensure_day_partitions'))`); err != nil {
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
	for _, sql := range []string{
		`DELETE FROM platform.outbox_default WHERE day < (now() AT TIME ZONE 'UTC')::date - $1::int AND sent_at IS NOT NULL`,
		// By when it was seen: a foreign id's day may be any.
		`DELETE FROM platform.inbox_default WHERE seen_at < clock_timestamp() - make_interval(days => $1::int)`,
	} {
		if _, err := h.pool.Exec(ctx, sql, keepDays); err != nil {
			return fmt.Errorf("outbox: empty default partition: %w", err)
		}
	}
	return nil
}

// forgetRecords removes alarms and dead letters that are older than keep, a
// bounded number at a time. A dead letter that nobody sent again in all that
// time is lost with this; its alarm was there for as long.
func (h *Housekeeper) forgetRecords(ctx context.Context) error {
	for what, sql := range map[string]string{
		"alarms": `DELETE FROM platform.alarms WHERE id IN (
			SELECT id FROM platform.alarms WHERE last_seen < clock_timestamp() - $1::interval LIMIT $2)`,
		"dead letters": `DELETE FROM platform.dead_letters WHERE id IN (
			SELECT id FROM platform.dead_letters WHERE created_at < clock_timestamp() - $1::interval LIMIT $2)`,
	} {
		for {
			tag, err := h.pool.Exec(ctx, sql, h.keep, recordsAtMost)
			if err != nil {
				return fmt.Errorf("outbox: remove old %s: %w", what, err)
			}
			if n := tag.RowsAffected(); n > 0 {
				h.log.InfoContext(ctx, "old records removed", "what", what, "rows", n)
			}
			if tag.RowsAffected() < recordsAtMost {
				break
			}
		}
	}
	return nil
}
