package qrlogin

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/account/qrlogin/internal/qrlogindb"
	"stampede/platform/identity/revoke"
)

// Deps are the Service's dependencies.
type Deps struct {
	Store       *account.Store
	Guard       *guard.Guard
	Logins      *login.Service
	Revocations *revoke.Service
}

// Service logs devices in by QR code. Safe for concurrent use.
type Service struct {
	cfg   Config
	deps  Deps
	db    *qrlogindb.Queries
	steps *prometheus.CounterVec
}

// New returns a Service; it starts nothing.
func New(cfg Config, deps Deps) *Service {
	s := &Service{cfg: cfg, deps: deps, db: qrlogindb.New(deps.Store.DB)}
	s.steps = promauto.With(deps.Store.Metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "stampede_auth_qr_logins_total", Help: "QR logins by step reached: asked, scanned, confirmed, denied, claimed.",
	}, []string{"step"})
	for _, step := range []string{"asked", scanned, confirmed, denied, claimed} {
		s.steps.WithLabelValues(step) // exported from the first scrape on, so that the first rate is right
	}
	return s
}

// Reasons for a refusal. An unknown id, another user's id and a wrong secret get the
// same one.
var (
	errUnknown = fault.Plain(fault.NotFound,
		fault.T("There is no such QR login, or it is not yours.", "没有该扫码登录，或不属于您。"))
	errExpired = fault.New(fault.Gone, "qr-expired", fault.T("This QR code has expired", "二维码已过期，请刷新"),
		fault.T("This QR code has expired; refresh it and scan the new one.", "二维码已过期，请刷新后重新扫描。"),
		fault.T("Refresh the QR code and scan the new one.", "请刷新二维码后重新扫描。"))
	errTaken = fault.New(fault.Conflict, "qr-taken",
		fault.T("This QR code has already been scanned", "二维码已被扫描，请刷新"),
		fault.T("This QR code has already been scanned; refresh it and scan the new one.", "二维码已被扫描，请刷新后重新扫描。"),
		fault.T("Refresh the QR code and scan the new one.", "请刷新二维码后重新扫描。"))
	errNotScanned = fault.New(fault.Conflict, "qr-not-scanned", fault.T("Scan the QR code first", "请先扫描二维码"),
		fault.T("Scan the QR code first, and send the scan_token of that scan.", "请先扫描二维码，并携带本次扫描的 scan_token。"),
		fault.T("Scan the QR code first.", "请先扫描二维码。"))
	errDecided = fault.New(fault.Conflict, "qr-decided", fault.T("This login has already been decided", "该登录请求已处理"),
		fault.T("This QR login has already been decided.", "该扫码登录已处理。"),
		fault.T("Refresh the QR code to begin another login.", "请刷新二维码重新发起登录。"))
	errNumber = fault.New(fault.Conflict, "qr-wrong-number",
		fault.T("The number is wrong, the login was refused", "数字不一致，已拒绝本次登录"),
		fault.T("The asking device shows another number, so the login was refused. Refresh its QR code and scan the "+
			"new one.",
			"数字与发起设备显示的不一致，登录已拒绝。请刷新二维码后重新扫描。"),
		fault.T("Refresh the QR code, and compare the numbers before you confirm.", "请刷新二维码，确认前核对两端显示的数字。"))
	errMinted = fault.Plain(fault.Forbidden,
		fault.T("A minted token cannot let another device in; log in with an account.", "签发的令牌不能让其他设备登录，请先用账号登录。"))
)

// unreachable is the answer to a client whose query failed.
func unreachable(err error) error {
	return httpx.Unreachable(fault.T("QR logins", "扫码登录"), err)
}

// Workers returns the loop that removes old rows.
func (s *Service) Workers() []app.Worker {
	return []app.Worker{{
		Name: "qr-logins-tidy",
		Run:  app.Loop{Every: tidyEvery, Do: s.forget, Log: s.deps.Store.Log, Failed: "deleting old QR logins failed"}.Run,
	}}
}

const (
	// tidyEvery and keepFor bound how long a client's address is kept.
	tidyEvery = 10 * time.Minute
	keepFor   = time.Hour
	// tidyTimeout bounds one run, and tidyAtMost its row locks; the next run deletes
	// the rest.
	tidyTimeout = 10 * time.Second
	tidyAtMost  = 10_000
)

// forget removes rows that can no longer be used. Every instance runs it.
func (s *Service) forget(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	if _, err := s.db.Forget(ctx, qrlogindb.ForgetParams{KeepSeconds: keepFor.Seconds(), AtMost: tidyAtMost}); err != nil {
		return fmt.Errorf("qrlogin: delete old rows: %w", err)
	}
	return nil
}

const (
	// codeLifetime is how long a code can be scanned and confirmed.
	codeLifetime = 2 * time.Minute
	// claimWithin is the least time that the asking device has to fetch its tokens
	// after the confirmation, even if the code expires before.
	claimWithin = 30 * time.Second
)

// Config is where QR logins lead, and their bounds, which are fixed except in tests.
type Config struct {
	// BaseURL is how phones reach the shop; the picture shows an address below it.
	BaseURL string
	// PerAddress limits how many codes one address may request, and
	// PicturesPerAddress how many pictures, each of which takes a millisecond to
	// draw.
	PerAddress, PicturesPerAddress ratelimit.Rule
	// Guesses limits the wrong secrets for one code from one address; above it the
	// right one is refused as well. A secret has 256 bits: the limit bounds the
	// load.
	Guesses ratelimit.Rule
	// Polls limits how often the right secret is used for one code.
	Polls ratelimit.Rule
	// PerUser limits the scans and decisions of one user.
	PerUser ratelimit.Rule
}

// DefaultConfig returns the values for a shop at an address.
func DefaultConfig(baseURL string) Config {
	return Config{
		BaseURL:            baseURL,
		PerAddress:         ratelimit.Rule{Name: "qr-login", Count: 20, Per: time.Minute}, // an office of desktops behind one address
		PicturesPerAddress: ratelimit.Rule{Name: "qr-picture", Count: 60, Per: time.Minute},
		Guesses:            ratelimit.Rule{Name: "qr-guess", Count: 10, Per: time.Minute},
		Polls:              ratelimit.Rule{Name: "qr-poll", Count: 120, Per: time.Minute}, // every half second, twice the rate of poll_after_ms
		PerUser:            ratelimit.Rule{Name: "qr-scan", Count: 20, Per: time.Minute},
	}
}
