package qrlogin

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/qrlogin/internal/qrlogindb"
)

// Accounts opens logins; *account.Service in production.
type Accounts interface {
	OpenLogin(ctx context.Context, tx pgx.Tx, user int64, d account.Device, how string) (account.Tokens, error)
}

// Limiter bounds who asks too often; *ratelimit.Limiter in production.
type Limiter interface {
	Take(ctx context.Context, asks ...ratelimit.Ask) (ratelimit.Decision, error)
	Look(asks ...ratelimit.Ask) ratelimit.Decision
}

// Bus tells the other instances of changes; *bus.Bus in production.
type Bus interface {
	Broadcast(subject string, data []byte) error
	OnBroadcast(subject string, fn func(data []byte)) (stop func(), err error)
}

// Revocations knows ended logins and spreads the news of them; *revoke.Service in
// production.
type Revocations interface {
	Revoked(ctx context.Context, p auth.Principal) (bool, error)
	Tell(ctx context.Context)
}

// Deps is what the Service is given.
type Deps struct {
	DB          *pgxpool.Pool
	Bus         Bus
	Accounts    Accounts
	Blacklist   account.Blacklist // nil: nobody is kept out
	Revocations Revocations
	Limits      Limiter
	Log         *slog.Logger
	Metrics     prometheus.Registerer
}

// Service logs devices in by QR code. Safe for concurrent use.
type Service struct {
	cfg   Config
	deps  Deps
	db    *qrlogindb.Queries
	polls *polls
	steps *prometheus.CounterVec
}

// New returns a Service; it starts nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, deps: deps, db: qrlogindb.New(deps.DB), polls: newPolls(cfg.MaxWaiting)}
	auto := promauto.With(deps.Metrics)
	s.steps = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "stampede_auth_qr_logins_total", Help: "QR logins by how far they came: asked, scanned, confirmed, denied, claimed.",
	}, []string{"step"})
	for _, step := range []string{"asked", scanned, confirmed, denied, claimed} {
		s.steps.WithLabelValues(step) // from the first scrape on, so that the first rate is right
	}
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stampede_auth_qr_polls_waiting", Help: "Polls that wait on this instance for somebody to scan or confirm.",
	}, func() float64 { return float64(s.polls.waiting()) })
	return s, nil
}

// What a QR login is refused with. An id that does not exist, one of somebody else
// and a wrong secret are not told apart.
var (
	errUnknown    = fault.Plain(fault.NotFound, "There is no such QR login, or it is not yours.")
	errExpired    = fault.New(fault.Gone, "qr-expired", fault.Titles{"This QR code has expired", "二维码已过期，请刷新"}, "This QR code has expired; have a new one shown and scan that.")
	errTaken      = fault.New(fault.Conflict, "qr-taken", fault.Titles{"This QR code has been scanned already", "二维码已被扫描，请刷新"}, "This QR code has been scanned already; have a new one shown and scan that.")
	errNotScanned = fault.New(fault.Conflict, "qr-not-scanned", fault.Titles{"Scan the QR code first", "请先扫描二维码"}, "Scan the QR code first, and decide with the scan_token of that scan.")
	errDecided    = fault.New(fault.Conflict, "qr-decided", fault.Titles{"This login has been decided already", "该登录请求已处理"}, "This QR login has been decided already.")
	errMinted     = fault.Plain(fault.Forbidden, "A minted token cannot let another device in; log in with an account.")
)

// unreachable is what a client is told of a failed query.
func unreachable(operation string, err error) error {
	return httpx.Unreachable("QR logins", fmt.Errorf("qrlogin: %s: %w", operation, err))
}

// take returns the refusal of the first rule that has no room.
func (s *Service) take(ctx context.Context, asks ...ratelimit.Ask) error {
	d, err := s.deps.Limits.Take(ctx, asks...)
	if err != nil {
		return fmt.Errorf("qrlogin: %w", err)
	}
	return d.Err()
}

// keepOut refuses whoever is listed by what is known of them.
func (s *Service) keepOut(way string, user int64, device string, from netip.Addr) error {
	if s.deps.Blacklist == nil {
		return nil
	}
	return s.deps.Blacklist.Refuse(way, user, "", device, from)
}

// Workers returns the loops that hear of changes and remove old rows.
func (s *Service) Workers() []app.Worker {
	return []app.Worker{{Name: "qr-logins-heard", Run: s.listen}, {Name: "qr-logins-tidy", Run: s.tidy}}
}

// Stop answers every poll that waits, with what is known. It comes before the
// requests are drained, which would otherwise wait for them.
func (s *Service) Stop(context.Context) error {
	s.polls.close()
	return nil
}

const (
	// tidyEvery and keepFor bound how long the address of whoever asked is kept.
	tidyEvery = 10 * time.Minute
	keepFor   = time.Hour
	// tidyTimeout bounds one step, and tidyAtMost its row locks; what is left has
	// the next turn.
	tidyTimeout = 10 * time.Second
	tidyAtMost  = 10_000
)

// tidy removes rows that nobody can do anything with any more. Each instance does.
func (s *Service) tidy(ctx context.Context) error {
	return app.Loop{Every: tidyEvery, Do: s.forget, Log: s.deps.Log, Failed: "old QR logins are still there"}.Run(ctx)
}

func (s *Service) forget(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	if _, err := s.db.Forget(ctx, qrlogindb.ForgetParams{KeepSeconds: keepFor.Seconds(), AtMost: tidyAtMost}); err != nil {
		return fmt.Errorf("qrlogin: delete old rows: %w", err)
	}
	return nil
}
