package blacklist

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/store/bus"
	"stampede/platform/store/snapshot"
)

const (
	// tidyEvery is how often ended entries are removed and owners of phones looked
	// for; neither is urgent, and whoever logs in is compared by phone anyway.
	tidyEvery = time.Minute
	// recordEvery is how late the audit log is told of a refusal, and recordTimeout
	// keeps a Postgres that hangs from holding the worker for long.
	recordEvery   = time.Second
	recordTimeout = 3 * time.Second
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
	// Keep is how long records stay, of which ended entries take at most 30 days.
	Keep time.Duration
}

// Service is the list. Safe for concurrent use.
type Service struct {
	set     Settings
	deps    Deps
	current *snapshot.Replica[picture]

	refused  prometheus.Counter
	refusals refusals
}

// New returns an empty list; Refresh or the worker fills it.
func New(set Settings, deps Deps) (*Service, error) {
	if deps.DB == nil || deps.Bus == nil || deps.Clock == nil || deps.Log == nil || deps.Metrics == nil {
		return nil, errors.New("blacklist: every dependency but Phones is required")
	}
	auto := promauto.With(deps.Metrics)
	failures := auto.NewCounter(prometheus.CounterOpts{
		Name: "stampede_blacklist_refresh_failures_total", Help: "Times the blacklist could not be read from Postgres.",
	})
	s := &Service{
		set: set, deps: deps,
		current: snapshot.New(snapshot.Source[picture]{
			Name: "blacklist", Table: "platform.blacklist_revision", Read: readPicture, Failures: failures,
			DB: deps.DB, Bus: deps.Bus, Log: deps.Log,
		}, newPicture(nil)),
		refused: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_blacklist_refusals_total", Help: "Logins, refreshes, codes and QR logins refused because of an entry.",
		}),
		refusals: refusals{told: map[int64]time.Time{}},
	}
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stampede_blacklist_entries", Help: "Entries of the blacklist that this instance knows.",
	}, func() float64 { return float64(s.current.Now().size) })
	return s, nil
}

// Listed returns the entry in force that keeps somebody out, by any of what is
// known of them; zero values are not looked up. It reads memory only.
func (s *Service) Listed(user int64, phone, device string, addr netip.Addr) (Entry, bool) {
	p := s.current.Now()
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
	e := s.current.Now().users[user]
	return e != nil && !e.over(s.deps.Clock.Now())
}

// Refresh reads the list if it has changed since the last time. Call it before
// serving: until then nobody is listed.
func (s *Service) Refresh(ctx context.Context) error { return s.current.Refresh(ctx) }

// Workers are the loops that keep the list fresh and small, and write down whom it
// refused.
func (s *Service) Workers() []app.Worker {
	tidy := app.Loop{Every: tidyEvery, Do: s.tidy, Log: s.deps.Log, Failed: "blacklist not tidied, trying again in a minute"}
	return []app.Worker{
		{Name: "blacklist", Run: s.current.Run},
		{Name: "blacklist-tidy", Run: tidy.Run},
		{Name: "blacklist-refusals", Run: s.keepRecording},
	}
}

// tidy removes what ended long ago, and finds the users who have registered a
// listed phone since. Several instances may do it at once: each statement is
// whole, and the second finds nothing to do.
func (s *Service) tidy(ctx context.Context) error {
	if err := deleteEnded(ctx, s.deps.DB, min(s.deps.Keep, keepEndedMost)); err != nil {
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
		if err := s.current.Change(ctx, func(tx pgx.Tx) (bool, error) { return true, setOwner(ctx, tx, phone, user) }); err != nil {
			return err
		}
	}
	return nil
}
