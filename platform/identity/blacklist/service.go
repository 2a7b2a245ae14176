package blacklist

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/identity/account"
	"stampede/platform/identity/blacklist/internal/blacklistdb"
	"stampede/platform/store/bus"
	"stampede/platform/store/pulse"
	"stampede/platform/store/snapshot"
)

// Settings are the operator's settings for the list.
type Settings struct {
	MaxEntries int `name:"blacklist-max" default:"100000" env:"STAMPEDE_BLACKLIST_MAX" help:"Maximum number of blacklist entries, kept in memory at some 300 bytes each." min:"100" max:"1000000" rare:""`
}

const (
	// keepEndedMost is the longest that operators can read an ended entry; then it is
	// deleted, together with its phone or address.
	keepEndedMost = 30 * 24 * time.Hour
	// tidyAtMost bounds one run; the next one continues.
	tidyAtMost = 1000
	// tidyEvery is how often ended entries are removed and owners of phones are
	// looked up; neither is urgent, because logins are also checked by phone.
	tidyEvery = time.Minute
	// recordEvery is how late the audit log gets a refusal, and recordTimeout keeps
	// a hanging Postgres from blocking the worker for long.
	recordEvery   = time.Second
	recordTimeout = 3 * time.Second
)

// Deps are the list's dependencies; all are required.
type Deps struct {
	DB       *pgxpool.Pool
	Pulse    *pulse.Pulse // see snapshot.Source
	Bus      *bus.Bus
	Clock    clock.Clock
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	Accounts *account.Store
	// Keep is how long records are kept; ended entries are kept at most 30 days.
	Keep time.Duration
}

// Service is the list. Safe for concurrent use.
type Service struct {
	set     Settings
	deps    Deps
	current *snapshot.Replica[index]

	refused  prometheus.Counter
	refusals refusals
}

// New returns an empty list; Refresh or the worker fills it.
func New(set Settings, deps Deps) *Service {
	auto := promauto.With(deps.Metrics)
	failures := auto.NewCounter(prometheus.CounterOpts{
		Name: "stampede_blacklist_refresh_failures_total", Help: "Failed reads of the blacklist from Postgres.",
	})
	s := &Service{
		set: set, deps: deps,
		refused: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_blacklist_refusals_total", Help: "Logins, refreshes, codes and QR logins refused because of an entry.",
		}),
		refusals: refusals{told: map[int64]time.Time{}},
	}
	s.current = snapshot.New(snapshot.Source[index]{
		Name: "blacklist", Table: "platform.blacklist_revision", Read: s.read, Failures: failures,
		DB: deps.DB, Pulse: deps.Pulse, Bus: deps.Bus, Log: deps.Log,
	}, newIndex(nil))
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stampede_blacklist_entries", Help: "Blacklist entries in this instance's memory.",
	}, func() float64 { return float64(s.current.Now().size) })
	return s
}

// read reads the entries that are in force or end by the clock, and the disabled
// accounts.
func (s *Service) read(ctx context.Context, tx pgx.Tx) (*index, error) {
	entries, err := blacklistdb.New(tx).EntriesInForce(ctx)
	if err != nil {
		return nil, fmt.Errorf("read entries: %w", err)
	}
	x := newIndex(entries)
	disabled, err := s.deps.Accounts.Disabled(ctx, tx)
	for _, user := range disabled {
		x.disabled[user] = struct{}{}
	}
	return x, err
}

// Listed returns the entry in force that matches any of the given values; zero
// values are not looked up. It reads memory only.
func (s *Service) Listed(user int64, phone, device string, addr netip.Addr) (Entry, bool) {
	p := s.current.Now()
	if p.size == 0 {
		return Entry{}, false
	}
	now := s.deps.Clock.Now()
	for _, e := range [...]*Entry{p.users[user], p.phones[phone], p.devices[device]} {
		if e != nil && !over(e, now) {
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

// User reports whether a user is listed by id or by phone, or has a disabled
// account. It costs two map lookups.
func (s *Service) User(user int64) bool {
	p := s.current.Now()
	if _, disabled := p.disabled[user]; disabled {
		return true
	}
	e := p.users[user]
	return e != nil && !over(e, s.deps.Clock.Now())
}

// Change runs fn in a transaction that disables or enables an account. Every
// instance has the change within a second, this one when Change returns.
func (s *Service) Change(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return s.current.Change(ctx, func(tx pgx.Tx) (bool, error) { return true, fn(tx) })
}

// KeepPhone keeps a listed user, who deletes the account in tx, from coming back with the
// same phone: the phone is listed as the user is. Every instance knows within a second.
func (s *Service) KeepPhone(ctx context.Context, tx pgx.Tx, user int64, phone string) error {
	if err := blacklistdb.New(tx).KeepPhone(ctx, blacklistdb.KeepPhoneParams{Listed: strconv.FormatInt(user, 10), Phone: phone}); err != nil {
		return fmt.Errorf("blacklist: keep the phone of user %d: %w", user, withoutValues(err))
	}
	return nil
}

// Refresh reads the list if it has changed since the last time. Call it before
// serving: until then the list is empty.
func (s *Service) Refresh(ctx context.Context) error { return s.current.Refresh(ctx) }

// Workers are the loops that refresh and trim the list, and record its refusals.
func (s *Service) Workers() []app.Worker {
	tidy := app.Loop{Every: tidyEvery, Do: s.tidy, Log: s.deps.Log, Failed: "blacklist housekeeping failed, retrying in a minute"}
	return []app.Worker{
		{Name: "blacklist", Run: s.current.Run},
		{Name: "blacklist-tidy", Run: tidy.Run},
		{Name: "blacklist-refusals", Run: s.keepRecording},
	}
}

// tidy removes entries that ended long ago, and finds users who have since
// registered a listed phone. Several instances may run it concurrently: each
// statement is atomic, and the second finds nothing to do.
func (s *Service) tidy(ctx context.Context) error {
	q := blacklistdb.New(s.deps.DB)
	err := q.RemoveEndedEntries(ctx, blacklistdb.RemoveEndedEntriesParams{Keep: min(s.deps.Keep, keepEndedMost), AtMost: tidyAtMost})
	if err != nil {
		return fmt.Errorf("delete ended entries: %w", err)
	}
	phones, err := q.PhonesWithoutOwner(ctx, tidyAtMost)
	if err != nil {
		return fmt.Errorf("read phones without an owner: %w", err)
	}
	for _, phone := range phones {
		_, user, err := s.deps.Accounts.Owner(ctx, phone)
		if err != nil {
			return fmt.Errorf("find the owner of a listed phone: %w", err)
		}
		if user == 0 {
			continue
		}
		err = s.current.Change(ctx, func(tx pgx.Tx) (bool, error) {
			return true, blacklistdb.New(tx).SetOwner(ctx, blacklistdb.SetOwnerParams{Phone: phone, Owner: user})
		})
		if err != nil {
			return fmt.Errorf("note a phone's owner: %w", err)
		}
	}
	return nil
}
