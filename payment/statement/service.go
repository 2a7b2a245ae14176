package statement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/payment/provider"
	"stampede/payment/statement/internal/statementdb"
	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/proof"
)

var (
	alarmDiffers = alarm.Define("statement-differs", alarm.Critical,
		fault.T("A provider's statement of a day and our ledger differ: money moved that is not recorded, or the reverse.",
			"支付渠道某日的对账单与账本不一致：有资金变动未记录，或账本中有而对账单没有。"),
		fault.T("List the differences with `stampede reconcile payments --date DAY`, and settle what is proposed with --apply.",
			"用 `stampede reconcile payments --date DAY` 列出差异，并用 --apply 处理建议的部分。"))
	alarmMissing = alarm.Define("statement-missing", alarm.Warning,
		fault.T("A provider's statement of a day could not be fetched for half a day. Attempts go on.",
			"支付渠道某日的对账单已有半天无法获取，仍在继续尝试。"),
		fault.T("Read the detail, and check in the provider's console whether the account may download statements.",
			"查看详情，并在支付渠道后台确认账号是否有权下载账单。"))
)

// Deps are the dependencies; all but Standby are required.
type Deps struct {
	DB        *pgxpool.Pool
	Standby   *pg.Standby // reads what operators look at; nil: there is none
	Providers []provider.Provider
	// Settle and SettleRefund apply a movement as a provider's answer to a query is applied.
	Settle       func(ctx context.Context, provider string, c provider.Capture) (outcome string, err error)
	SettleRefund func(ctx context.Context, provider string, r provider.RefundStatus) error
	// Zone is the shop's time zone.
	Zone *time.Location
	Log  *slog.Logger
}

// Service compares statements. Safe for concurrent use.
type Service struct {
	deps  Deps
	q     *statementdb.Queries
	named map[string]provider.Provider
	names []string
	kick  chan struct{} // capacity 1: one pending wake-up is enough
}

// New returns the service; nothing runs until its worker is started.
func New(deps Deps) *Service {
	s := &Service{deps: deps, q: statementdb.New(deps.DB), named: make(map[string]provider.Provider, len(deps.Providers)), kick: make(chan struct{}, 1)}
	for _, p := range deps.Providers {
		name := p.Profile().Name
		s.named[name] = p
		s.names = append(s.names, name)
	}
	return s
}

const (
	// planEvery is how often the worker plans days and looks for what is due.
	planEvery = time.Minute
	// planDays is how many days back it plans: a shop that was down over a weekend misses none.
	planDays = 3
	// fetchTimeout bounds the fetching and comparing of one statement: 100,000 lines in pages of a hundred.
	fetchTimeout = 14 * time.Minute
	// lease is how long a claimed statement belongs to one instance.
	lease = fetchTimeout + time.Minute
	// retryAfter is the pause after a failed attempt, and alarmAfter the number of attempts,
	// half a day, that raise the alarm.
	retryAfter, alarmAfter = 30 * time.Minute, 24
	// keepDays is how long lines are kept: as long as companies let a statement be downloaded.
	keepDays = 100
	// forgetAtMost bounds one deletion to a few milliseconds of locks.
	forgetAtMost = 5000
)

// Workers returns the daily job.
func (s *Service) Workers() []app.Worker {
	return []app.Worker{{Name: "payment-statements", Run: app.Loop{
		Every: planEvery, Kick: s.kick, Log: s.deps.Log, Failed: "statements not planned, retrying later", Do: s.round,
	}.Run}}
}

// round plans what the daily job wants and fetches all that is due.
func (s *Service) round(ctx context.Context) error {
	if len(s.named) == 0 {
		return nil
	}
	_, forgetErr := s.q.ForgetLines(ctx, statementdb.ForgetLinesParams{Before: time.Now().AddDate(0, 0, -keepDays), AtMost: forgetAtMost})
	err := errors.Join(forgetErr, s.plan(ctx, time.Now()))
	for ctx.Err() == nil {
		due, claimErr := s.q.ClaimStatement(ctx, statementdb.ClaimStatementParams{Lease: lease, Providers: s.names})
		if claimErr != nil || len(due) == 0 {
			return errors.Join(err, claimErr)
		}
		s.fetch(ctx, due[0])
	}
	return err
}

// plan wants the statements of the last days that are made by now.
func (s *Service) plan(ctx context.Context, now time.Time) error {
	for _, p := range s.deps.Providers {
		profile := p.Profile()
		d := s.today(profile, now.Add(-profile.StatementAfter))
		for range planDays {
			d = before(d)
			if err := s.want(ctx, profile.Name, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// zone is that of a provider's days.
func (s *Service) zone(p provider.Profile) *time.Location { return cmp.Or(p.Zone, s.deps.Zone) }

// today is the provider's day that holds a time.
func (s *Service) today(p provider.Profile, at time.Time) provider.Day {
	return provider.DayOf(at, s.zone(p))
}

func before(d provider.Day) provider.Day {
	return provider.Day{From: d.From.AddDate(0, 0, -1), To: d.From}
}

// days are the provider's days that overlap a day of the shop's.
func (s *Service) days(p provider.Profile, date time.Time) (all []provider.Day) {
	from := time.Date(date.Year(), date.Month(), date.Day(), 0, 0, 0, 0, s.deps.Zone)
	to := from.AddDate(0, 0, 1)
	for d := s.today(p, from); d.From.Before(to); d = s.today(p, d.To) {
		all = append(all, d)
	}
	return all
}

// civil is a day's date as the database keeps it.
func civil(d provider.Day) time.Time {
	y, m, day := d.From.Date()
	return time.Date(y, m, day, 0, 0, 0, 0, time.UTC)
}

// want plans a statement, and that of the day before, which may have what was recorded
// after midnight.
func (s *Service) want(ctx context.Context, name string, d provider.Day) error {
	for i, day := range []provider.Day{d, before(d)} {
		err := s.q.WantStatement(ctx, statementdb.WantStatementParams{
			Provider: name, Day: civil(day), FromTime: day.From, ToTime: day.To, Wanted: i == 0,
		})
		if err != nil {
			return fmt.Errorf("statement: plan %s %s: %w", name, day.Date(), err)
		}
	}
	return nil
}

const (
	// late is when a statement has to be compared: it is made by noon of the next day, and
	// then the alarm takes half a day of attempts.
	late = 24 * time.Hour
	// grace is late after the end of the day that a movement belongs to.
	grace = late + 24*time.Hour
	// checkDays is how far back the check looks: statements of older days may have been
	// waived, or are not to be had any more.
	checkDays = 8 * 24 * time.Hour
)

// Check reports the last week's days whose statement was not compared, although money
// moved; one that nothing has asked for is the shop's, in its zone. A day on which nothing
// moved is excused, and so are the ledger's names without statements.
func Check(ctx context.Context, db statementdb.DBTX, zone *time.Location, atMost int32, without ...string) (all []proof.Violation, err error) {
	rows, err := statementdb.New(db).NotCompared(ctx, statementdb.NotComparedParams{
		Zone: zone.String(), Since: checkDays, Grace: grace, Late: late, Without: without, AtMost: atMost,
	})
	if err != nil {
		return nil, fmt.Errorf("statement: check: %w", err)
	}
	for _, r := range rows {
		all = append(all, proof.Violation{Subject: "statement " + r.Provider + " " + r.Day.Format(time.DateOnly), Detail: "it was not compared with the ledger: " + r.Why})
	}
	return all, nil
}
