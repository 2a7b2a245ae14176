package bulletin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/inventory"
	"stampede/platform/base/app"
	"stampede/platform/base/ids"
	"stampede/platform/store/lease"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/seckillevent"
)

const (
	// lookEvery is how late an event may be.
	lookEvery = time.Second
	// leaseLife, and a third of it, is how late it may be after the leading process died.
	leaseLife = 10 * time.Second
	// lookTimeout bounds one look.
	lookTimeout = 5 * time.Second
	// itemPause keeps an item whose last units go to and fro from an event each second.
	itemPause = 5 * time.Second
	// tellAtMost bounds one transaction and, at less than 600 bytes an item, one message. What is beyond it is due in
	// the next look.
	tellAtMost = 1000
)

// Stock is inventory's Service.
type Stock interface {
	Left(ctx context.Context) (map[int64]inventory.Left, error)
}

// Waker is woken when events are committed.
type Waker interface{ Wake() }

// Deps are what the service works with; all are required.
type Deps struct {
	DB     *pgxpool.Pool
	Stock  Stock
	Outbox Waker
	Log    *slog.Logger
}

// Service publishes what becomes of sessions and items. Make it with New.
type Service struct {
	deps         Deps
	every, pause time.Duration // lookEvery and itemPause, except in tests
	timeout      time.Duration // lookTimeout, except in tests
}

// New returns the service; it reads nothing yet.
func New(deps Deps) *Service {
	return &Service{deps: deps, every: lookEvery, pause: itemPause, timeout: lookTimeout}
}

// Run publishes while this instance leads, until ctx ends. No error ends it.
func (s *Service) Run(ctx context.Context) error {
	return lease.Lead(ctx, s.deps.DB, "bulletin", ids.New().String(), leaseLife, app.Loop{
		Every: s.every, Do: s.look, Log: s.deps.Log, Failed: "publishing what becomes of sessions and items failed, retrying",
	})
}

// look publishes what has changed since the last look.
func (s *Service) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	// Sessions, and the items that answered, do not wait for the others.
	asking, asked := context.WithTimeout(ctx, s.timeout/2)
	left, silent := s.deps.Stock.Left(asking)
	asked()
	told := 0
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		sessions, err := tellSessions(ctx, tx)
		if err != nil {
			return err
		}
		items, err := tellItems(ctx, tx, left, s.pause)
		told = sessions + items
		return err
	})
	if err == nil && told > 0 {
		s.deps.Outbox.Wake()
	}
	return errors.Join(silent, err)
}

func tellSessions(ctx context.Context, tx pgx.Tx) (int, error) {
	rows, err := seckilldb.New(tx).TellSessions(ctx, tellAtMost)
	if err != nil {
		return 0, fmt.Errorf("bulletin: tell sessions: %w", err)
	}
	for _, r := range rows {
		subject := seckillevent.SubjectSessionEnded
		if r.Opens {
			subject = seckillevent.SubjectSessionOpened
		}
		_, err := outbox.Append(ctx, tx, subject, seckillevent.Session{
			SessionID: r.ID, ExternalID: r.ExternalID, ActivityID: r.ActivityID, ActivityExternalID: r.ActivityExternalID,
			OpensAt: r.OpensAt, ClosesAt: r.ClosesAt, Terminated: r.Terminated,
		})
		if err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}

func tellItems(ctx context.Context, tx pgx.Tx, left map[int64]inventory.Left, pause time.Duration) (int, error) {
	if len(left) == 0 {
		return 0, nil
	}
	look := seckilldb.TellItemsParams{Pause: pause, AtMost: tellAtMost}
	for item, of := range left {
		look.ItemIds, look.SoldOut = append(look.ItemIds, item), append(look.SoldOut, !of.Unlimited && of.Units == 0)
	}
	rows, err := seckilldb.New(tx).TellItems(ctx, look)
	if err != nil {
		return 0, fmt.Errorf("bulletin: tell items: %w", err)
	}
	happened := map[string][]seckillevent.Item{}
	for _, r := range rows {
		subject, of := seckillevent.SubjectItemUnitsBack, left[r.ID]
		switch {
		case r.Opens:
			subject = seckillevent.SubjectItemOpened
		case r.SoldOut:
			subject = seckillevent.SubjectItemSoldOut
		}
		happened[subject] = append(happened[subject], seckillevent.Item{
			ItemID: r.ID, ExternalID: r.ExternalID, SKU: r.Sku, SessionID: r.SessionID, SessionExternalID: r.SessionExternalID,
			ActivityID: r.ActivityID, ActivityExternalID: r.ActivityExternalID, Left: of.Units, Held: of.Held, Unlimited: of.Unlimited,
		})
	}
	for subject, items := range happened {
		if _, err := outbox.Append(ctx, tx, subject, seckillevent.Items{Items: items}); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}
