package blacklist

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

const entryColumns = `id, kind, value, owner, reason, expires_at, created_by, created_at`

func scanEntry(row pgx.CollectableRow) (Entry, error) {
	var e Entry
	var expires *time.Time
	err := row.Scan(&e.ID, &e.Kind, &e.Value, &e.Owner, &e.Reason, &expires, &e.CreatedBy, &e.CreatedAt)
	if expires != nil {
		e.ExpiresAt = *expires
	}
	return e, err
}

// readPicture reads what is in force or will be forgotten by itself.
func readPicture(ctx context.Context, tx pgx.Tx) (*picture, error) {
	entries, err := collect(tx.Query(ctx, `SELECT `+entryColumns+` FROM platform.blacklist
		WHERE expires_at IS NULL OR expires_at > clock_timestamp()`))
	if err != nil {
		return nil, err
	}
	return newPicture(entries), nil
}

// filter narrows a list; its zero value takes everything.
type filter struct {
	kind   Kind
	value  string // canonical
	active bool   // only what is in force
	before int64  // only entries older than this one
	limit  int
}

// list returns the entries that pass every part of the filter, newest first.
func list(ctx context.Context, db querier, f filter) ([]Entry, error) {
	return collect(db.Query(ctx, `SELECT `+entryColumns+` FROM platform.blacklist
		WHERE ($1 = '' OR kind = $1) AND ($2 = '' OR value = $2)
		  AND (NOT $3 OR expires_at IS NULL OR expires_at > clock_timestamp()) AND ($4 = 0 OR id < $4)
		ORDER BY id DESC LIMIT $5`, string(f.kind), f.value, f.active, f.before, f.limit))
}

func collect(rows pgx.Rows, err error) ([]Entry, error) {
	var entries []Entry
	if err == nil {
		entries, err = pgx.CollectRows(rows, scanEntry)
	}
	if err != nil {
		return nil, fmt.Errorf("read entries: %w", err)
	}
	return entries, nil
}

// put adds an entry, or replaces reason and end of the one that names the same.
func put(ctx context.Context, tx pgx.Tx, e Entry) (Entry, error) {
	var expires *time.Time
	if !e.ExpiresAt.IsZero() {
		expires = &e.ExpiresAt
	}
	rows, err := tx.Query(ctx, `
		INSERT INTO platform.blacklist (kind, value, owner, reason, expires_at, created_by) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (kind, value) DO UPDATE SET owner = GREATEST(platform.blacklist.owner, excluded.owner),
			reason = excluded.reason, expires_at = excluded.expires_at, created_by = excluded.created_by
		RETURNING `+entryColumns, string(e.Kind), e.Value, e.Owner, e.Reason, expires, e.CreatedBy)
	if err == nil {
		e, err = pgx.CollectExactlyOneRow(rows, scanEntry)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("put entry: %w", withoutValues(err))
	}
	return e, nil
}

// withoutValues drops what Postgres says of a row that it refuses: an error is
// logged, and the row may hold a phone.
func withoutValues(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && (strings.HasPrefix(pgErr.Code, "22") || strings.HasPrefix(pgErr.Code, "23")) {
		return fmt.Errorf("SQLSTATE %s, constraint %q", pgErr.Code, pgErr.ConstraintName)
	}
	return err
}

// lock has one change at a time count the entries, until tx ends.
func lock(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `SELECT FROM platform.blacklist_revision FOR UPDATE`); err != nil {
		return fmt.Errorf("lock the list: %w", err)
	}
	return nil
}

// count is how many entries there are.
func count(ctx context.Context, tx pgx.Tx) (n int, err error) {
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM platform.blacklist`).Scan(&n); err != nil {
		return 0, fmt.Errorf("count entries: %w", err)
	}
	return n, nil
}

// remove deletes an entry and returns it; false when there is none.
func remove(ctx context.Context, tx pgx.Tx, id int64) (Entry, bool, error) {
	rows, err := tx.Query(ctx, `DELETE FROM platform.blacklist WHERE id = $1 RETURNING `+entryColumns, id)
	if err != nil {
		return Entry{}, false, fmt.Errorf("remove entry: %w", err)
	}
	e, err := pgx.CollectExactlyOneRow(rows, scanEntry)
	if errors.Is(err, pgx.ErrNoRows) {
		return Entry{}, false, nil
	}
	if err != nil {
		return Entry{}, false, fmt.Errorf("remove entry: %w", err)
	}
	return e, true, nil
}

// tidyAtMost bounds one round; the next takes the rest.
const tidyAtMost = 1000

func deleteEnded(ctx context.Context, db querier, keep time.Duration) error {
	_, err := db.Exec(ctx, `DELETE FROM platform.blacklist WHERE id IN (
		SELECT id FROM platform.blacklist WHERE expires_at < clock_timestamp() - $1::interval ORDER BY expires_at LIMIT $2)`, keep, tidyAtMost)
	if err != nil {
		return fmt.Errorf("delete ended entries: %w", err)
	}
	return nil
}

// readUnowned returns listed phones that belong to nobody yet, some of them at
// random where there are more than one round takes.
func readUnowned(ctx context.Context, db querier) ([]string, error) {
	rows, err := db.Query(ctx, `SELECT value FROM platform.blacklist WHERE kind = 'phone' AND owner = 0
		AND (expires_at IS NULL OR expires_at > clock_timestamp()) ORDER BY random() LIMIT $1`, tidyAtMost)
	if err != nil {
		return nil, fmt.Errorf("read phones without an owner: %w", err)
	}
	phones, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read phones without an owner: %w", err)
	}
	return phones, nil
}

func setOwner(ctx context.Context, tx pgx.Tx, phone string, user int64) error {
	if _, err := tx.Exec(ctx, `UPDATE platform.blacklist SET owner = $2 WHERE kind = 'phone' AND value = $1`, phone, user); err != nil {
		return fmt.Errorf("note a phone's owner: %w", err)
	}
	return nil
}
