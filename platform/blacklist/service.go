package blacklist

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/app"
	"stampede/platform/bus"
	"stampede/platform/clock"
	"stampede/platform/pg"
)

// subjectChanged tells every instance to look at the revision.
const subjectChanged = "broadcast.blacklist.changed"

const (
	// pollEvery is how late an instance that missed the broadcast is; a change
	// is to be in force everywhere within a second.
	pollEvery = 500 * time.Millisecond
	// readTimeout keeps a Postgres that hangs from holding the loop for long.
	readTimeout = 3 * time.Second
	// tidyEvery is how often ended entries are removed and owners of phones looked
	// for; neither is urgent, and whoever logs in is compared by phone anyway.
	tidyEvery = time.Minute
)

// Phones knows whose phones are.
type Phones interface {
	// Owner reads a phone as people write it and returns it as it is stored, with
	// the user that it belongs to, 0 when nobody has it. The error of a text that
	// is no phone is a fault for whoever sent it.
	Owner(ctx context.Context, raw string) (phone string, user int64, err error)
}

// Deps are what the list works with; all but Phones are required.
type Deps struct {
	DB      *pgxpool.Pool
	Bus     *bus.Bus
	Clock   clock.Clock
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Phones  Phones // nil: phones cannot be listed
}

// Service is the list. Safe for concurrent use.
type Service struct {
	cfg     Config
	deps    Deps
	current atomic.Pointer[picture]
	reading sync.Mutex // one reading at a time, so that a later one is newer

	failures prometheus.Counter
}

// New returns an empty list; Refresh or the worker fills it.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.DB == nil || deps.Bus == nil || deps.Clock == nil || deps.Log == nil || deps.Metrics == nil {
		return nil, errors.New("blacklist: every dependency but Phones is required")
	}
	s := &Service{
		cfg: cfg, deps: deps,
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stampede_blacklist_refresh_failures_total", Help: "Times the blacklist could not be read from Postgres.",
		}),
	}
	s.current.Store(newPicture(-1, nil))
	entries := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stampede_blacklist_entries", Help: "Entries of the blacklist that this instance knows.",
	}, func() float64 { return float64(s.current.Load().size) })
	for _, c := range []prometheus.Collector{s.failures, entries} {
		if err := deps.Metrics.Register(c); err != nil {
			return nil, fmt.Errorf("blacklist: register metrics: %w", err)
		}
	}
	return s, nil
}

// Listed returns the entry in force that keeps somebody out, by any of what is
// known of them; zero values are not looked up. It reads memory only.
func (s *Service) Listed(user int64, phone, device string, addr netip.Addr) (Entry, bool) {
	p := s.current.Load()
	if p.size == 0 {
		return Entry{}, false
	}
	now := s.deps.Clock.Now()
	for _, e := range [...]*Entry{p.users[user], p.phones[phone], p.devices[device]} {
		if e != nil && !e.over(now) {
			return *e, true
		}
	}
	if addr.IsValid() {
		if e := p.address(addr, now); e != nil {
			return *e, true
		}
	}
	return Entry{}, false
}

// User reports whether a user is listed by id or by phone. It costs a map lookup.
func (s *Service) User(user int64) bool {
	e := s.current.Load().users[user]
	return e != nil && !e.over(s.deps.Clock.Now())
}

// Refresh reads the list if it has changed since the last time. Call it before
// serving: until then nobody is listed.
func (s *Service) Refresh(ctx context.Context) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	revision, err := readRevision(ctx, s.deps.DB)
	if err == nil && revision != s.current.Load().revision {
		err = s.read(ctx)
	}
	if err != nil {
		s.failures.Inc()
		return fmt.Errorf("blacklist: refresh: %w", err)
	}
	return nil
}

// read replaces the picture. Revision and rows are of one moment.
func (s *Service) read(ctx context.Context) error {
	tx, err := s.deps.DB.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it only read
	revision, err := readRevision(ctx, tx)
	if err != nil {
		return err
	}
	entries, err := readAll(ctx, tx)
	if err != nil {
		return err
	}
	s.current.Store(newPicture(revision, entries))
	return nil
}

// Workers are the loops that keep the list fresh and small.
func (s *Service) Workers() []app.Worker {
	tidy := app.Loop{Every: tidyEvery, Do: s.tidy, Log: s.deps.Log, Failed: "blacklist not tidied, trying again in a minute"}
	return []app.Worker{{Name: "blacklist", Run: s.keepFresh}, {Name: "blacklist-tidy", Run: tidy.Run}}
}

func (s *Service) keepFresh(ctx context.Context) error {
	kicks, stop, err := s.deps.Bus.Kicks(subjectChanged)
	if err != nil {
		return fmt.Errorf("blacklist: %w", err)
	}
	defer stop()
	return app.Loop{
		Every: pollEvery, Kick: kicks, Do: s.Refresh, Log: s.deps.Log, Failed: "blacklist not read, the last one stays in force",
	}.Run(ctx)
}

// tidy removes what ended long ago, and finds the users who have registered a
// listed phone since. Several instances may do it at once: each statement is
// whole, and the second finds nothing to do.
func (s *Service) tidy(ctx context.Context) error {
	if err := deleteEnded(ctx, s.deps.DB, s.cfg.KeepEnded); err != nil {
		return err
	}
	if s.deps.Phones == nil {
		return nil
	}
	phones, err := readUnowned(ctx, s.deps.DB)
	if err != nil {
		return err
	}
	for _, phone := range phones {
		_, user, err := s.deps.Phones.Owner(ctx, phone)
		if err != nil {
			return fmt.Errorf("find the owner of a listed phone: %w", err)
		}
		if user == 0 {
			continue
		}
		if err := s.change(ctx, func(tx pgx.Tx) error { return setOwner(ctx, tx, phone, user) }); err != nil {
			return err
		}
	}
	return nil
}

// change runs fn and raises the revision in one transaction, and tells every
// instance after its commit. This one has seen the change when it returns.
func (s *Service) change(ctx context.Context, fn func(tx pgx.Tx) error) error {
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		// First, because its lock lets one change at a time count the entries.
		if _, err := tx.Exec(ctx, `UPDATE platform.blacklist_revision SET revision = revision + 1`); err != nil {
			return fmt.Errorf("raise revision: %w", err)
		}
		return fn(tx)
	})
	if err != nil {
		return err
	}
	if err := s.deps.Bus.Broadcast(subjectChanged, nil); err != nil {
		s.deps.Log.WarnContext(ctx, "broadcast failed, the poll will do it", "subject", subjectChanged, "error", err)
	}
	if err := s.Refresh(ctx); err != nil {
		s.deps.Log.WarnContext(ctx, "blacklist not read after a change, the poll will do it", "error", err)
	}
	return nil
}
