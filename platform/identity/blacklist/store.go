package blacklist

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/identity/blacklist/internal/blacklistdb"
)

func entryOf(row blacklistdb.PlatformBlacklist) Entry {
	e := Entry{
		ID: row.ID, Kind: Kind(row.Kind), Value: row.Value, Owner: row.Owner, Reason: row.Reason, CreatedBy: row.CreatedBy, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
	if row.ExpiresAt != nil {
		e.ExpiresAt = *row.ExpiresAt
	}
	return e
}

// readPicture reads the entries that are in force or end by the clock, and the
// disabled accounts.
func (s *Service) readPicture(ctx context.Context, tx pgx.Tx) (*picture, error) {
	entries, err := collect(blacklistdb.New(tx).EntriesInForce(ctx))
	if err != nil {
		return nil, err
	}
	p := newPicture(entries)
	if s.deps.Accounts == nil {
		return p, nil
	}
	disabled, err := s.deps.Accounts.Disabled(ctx, tx)
	if err != nil {
		return nil, err
	}
	for _, user := range disabled {
		p.disabled[user] = struct{}{}
	}
	return p, nil
}

// filter narrows a list; the zero value matches every entry.
type filter struct {
	kind   Kind
	value  string // canonical
	active bool   // only what is in force
	before int64  // only entries older than this one
	limit  int
}

// list returns the entries that match the filter, newest first.
func list(ctx context.Context, db blacklistdb.DBTX, f filter) ([]Entry, error) {
	return collect(blacklistdb.New(db).Entries(ctx, blacklistdb.EntriesParams{
		Kind: string(f.kind), Value: f.value, Active: f.active, Before: f.before, AtMost: int32(f.limit), //nolint:gosec // a page
	}))
}

func collect(rows []blacklistdb.PlatformBlacklist, err error) ([]Entry, error) {
	if err != nil {
		return nil, fmt.Errorf("read entries: %w", err)
	}
	entries := make([]Entry, len(rows))
	for i, row := range rows {
		entries[i] = entryOf(row)
	}
	return entries, nil
}

// put adds an entry, or replaces the reason and the end of the existing one.
func put(ctx context.Context, tx pgx.Tx, e Entry) (Entry, error) {
	var expires *time.Time
	if !e.ExpiresAt.IsZero() {
		expires = &e.ExpiresAt
	}
	row, err := blacklistdb.New(tx).PutEntry(ctx, blacklistdb.PutEntryParams{
		Kind: string(e.Kind), Value: e.Value, Owner: e.Owner, Reason: e.Reason, ExpiresAt: expires, CreatedBy: e.CreatedBy,
	})
	if err != nil {
		return Entry{}, fmt.Errorf("put entry: %w", withoutValues(err))
	}
	return entryOf(row), nil
}

// withoutValues drops the row that Postgres quotes when it refuses one: errors are
// logged, and the row may contain a phone.
func withoutValues(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && (strings.HasPrefix(pgErr.Code, "22") || strings.HasPrefix(pgErr.Code, "23")) {
		return fmt.Errorf("SQLSTATE %s, constraint %q", pgErr.Code, pgErr.ConstraintName)
	}
	return err
}

// lock serializes the changes that count the entries, until tx ends.
func lock(ctx context.Context, tx pgx.Tx) error {
	if err := blacklistdb.New(tx).LockEntries(ctx); err != nil {
		return fmt.Errorf("lock the list: %w", err)
	}
	return nil
}

// count returns the number of entries.
func count(ctx context.Context, tx pgx.Tx) (int, error) {
	n, err := blacklistdb.New(tx).CountEntries(ctx)
	if err != nil {
		return 0, fmt.Errorf("count entries: %w", err)
	}
	return int(n), nil
}

// remove deletes an entry and returns it; false when there is none.
func remove(ctx context.Context, tx pgx.Tx, id int64) (Entry, bool, error) {
	row, err := blacklistdb.New(tx).RemoveEntry(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Entry{}, false, nil
	}
	if err != nil {
		return Entry{}, false, fmt.Errorf("remove entry: %w", err)
	}
	return entryOf(row), true, nil
}

// tidyAtMost bounds one run; the next one continues.
const tidyAtMost = 1000

func deleteEnded(ctx context.Context, db *pgxpool.Pool, keep time.Duration) error {
	err := blacklistdb.New(db).RemoveEndedEntries(ctx, blacklistdb.RemoveEndedEntriesParams{Keep: keep, AtMost: tidyAtMost})
	if err != nil {
		return fmt.Errorf("delete ended entries: %w", err)
	}
	return nil
}

// readUnowned returns listed phones without a user, a random sample if there are
// more than one run processes.
func readUnowned(ctx context.Context, db *pgxpool.Pool) ([]string, error) {
	phones, err := blacklistdb.New(db).PhonesWithoutOwner(ctx, tidyAtMost)
	if err != nil {
		return nil, fmt.Errorf("read phones without an owner: %w", err)
	}
	return phones, nil
}

func setOwner(ctx context.Context, tx pgx.Tx, phone string, user int64) error {
	if err := blacklistdb.New(tx).SetOwner(ctx, blacklistdb.SetOwnerParams{Phone: phone, Owner: user}); err != nil {
		return fmt.Errorf("note a phone's owner: %w", err)
	}
	return nil
}
