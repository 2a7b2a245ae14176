// Package settlement does what is due once a session is over: it has the books proved, keeps the session's report as it was
// then, and raises an alarm where the proof did not pass.
//
// # When
//
// A session is due a minute after its last payment window is over, once no item of it holds a unit for an order that may
// still be paid; a unit that is held for another day, because of a fault that has an alarm of its own, does not delay it
// further. Sessions that are due together share one proof.
//
// # Owns
//
// The table seckill.settlements, a row per session from its proof's request on. A process that dies leaves the rest to
// the next leader: each step commits, and none is made twice.
package settlement

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/inventory"
	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/store/lease"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/proof/runs"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/plan"
	"stampede/seckill/report"
)

const (
	// lookEvery is how late a step may be; each look is two indexed queries.
	lookEvery = 10 * time.Second
	leaseLife = time.Minute
	// stepTimeout bounds the beginning of what is due, and each report, because a leader that hangs stays leader. A report
	// takes seconds.
	stepTimeout = 5 * time.Minute
	// grace is how long after its deadline an order's expiry and the return of its units may take.
	grace = time.Minute
	// mostPatience is how long a unit that is still held delays a proof.
	mostPatience = 24 * time.Hour
	// since is how long ago a session may have closed: the longest payment window, which is a week, mostPatience, and a
	// long weekend for which the shop was stopped.
	since = 11 * 24 * time.Hour
)

var (
	// Violated is raised about a session whose proof found a violation.
	Violated = alarm.Define("settlement-violated", alarm.Critical,
		fault.T("The proof of the books after a sale found an invariant violated: units or money are not accounted for.",
			"场次结束后的账目核验发现不一致：有商品或款项对不上账。"),
		fault.T("Open the proof that the detail names. Do not refund or restock what it lists before you know why it differs; `stampede reconcile` shows what Redis holds.",
			"请打开详情中的账目核验。查明原因之前，不要对其中的商品或订单退款、补货；`stampede reconcile` 可查看 Redis 中的数据。"))
	// Settled tells operators what a session was.
	Settled = alarm.Define("session-settled", alarm.Info,
		fault.T("A session is over, its books are proved, and its report is kept.", "场次已结束，账目核验通过，报告已存档。"),
		fault.T("Nothing is to be done. Read the report on the sale's page.", "无需处理，报告见活动页面。"))
	// Unproved is raised about a session whose proof could not be completed.
	Unproved = alarm.Define("settlement-unproved", alarm.Warning,
		fault.T("A check of the proof after a sale could not run, so the books are not proved.",
			"场次结束后的账目核验有一项检查未能执行，账目尚未得到证明。"),
		fault.T("Read the error in the proof that the detail names, remove its cause, and start another proof.",
			"查看详情中账目核验的错误，排除原因后重新发起核验。"))
)

// Deps are what settlements work with; all are required.
type Deps struct {
	DB     *pgxpool.Pool
	Stock  Stock
	Clock  clock.Clock
	Report func(ctx context.Context, session int64) (*report.Report, error)
	Log    *slog.Logger
}

// Stock is what settlements read of inventory.
type Stock interface {
	Book(ctx context.Context, itemID int64) (inventory.BookRow, bool, error)
}

// Service settles sessions. Make it with New.
type Service struct {
	Deps

	every time.Duration // lookEvery except in tests
}

// New returns a Service.
func New(deps Deps) *Service { return &Service{Deps: deps, every: lookEvery} }

// Worker settles sessions while this instance leads.
func (s *Service) Worker() app.Worker {
	return app.Worker{Name: "seckill-settlement", Run: func(ctx context.Context) error {
		return lease.Lead(ctx, s.DB, "settlement", ids.New().String(), leaseLife, app.Loop{
			Every: s.every, Log: s.Log, Failed: "settling sessions failed, trying again", Do: s.Look,
		})
	}}
}

// Look makes the steps that are due. Worker calls it; safe for concurrent use.
func (s *Service) Look(ctx context.Context) error {
	return errors.Join(s.begin(ctx), s.settle(ctx))
}

// begin requests one proof for all sessions that are due.
func (s *Service) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	now := s.Clock.Now()
	rows, err := seckilldb.New(s.DB).OverSessions(ctx, seckilldb.OverSessionsParams{Since: now.Add(-since), Now: now})
	if err != nil {
		return fmt.Errorf("settlement: read sessions: %w", err)
	}
	var due []int64
	for i := range rows {
		ok, err := s.due(ctx, &rows[i], now)
		if err != nil {
			return err
		}
		if ok {
			due = append(due, rows[i].SeckillSession.ID)
		}
	}
	if len(due) == 0 {
		return nil
	}
	return pg.InTx(ctx, s.DB, func(tx pgx.Tx) error {
		run, ok, err := runs.Request(ctx, tx)
		if err != nil || !ok {
			return err // the run that has not ended may have begun before
		}
		if err := seckilldb.New(tx).BeginSettlements(ctx, seckilldb.BeginSettlementsParams{Sessions: due, ProofRun: run, Now: now}); err != nil {
			return fmt.Errorf("settlement: begin: %w", err)
		}
		return nil
	})
}

// due reports whether no order of a session can be paid any more.
func (s *Service) due(ctx context.Context, row *seckilldb.OverSessionsRow, now time.Time) (bool, error) {
	ended := row.SeckillSession.ClosesAt
	if a := &row.SeckillActivity; a.Status == plan.StatusTerminated && a.UpdatedAt.Before(ended) {
		ended = a.UpdatedAt
	}
	last := ended.Add(plan.PayWindow(&row.SeckillActivity, &row.SeckillSession) + grace)
	if now.Before(last) {
		return false, nil
	}
	if now.After(last.Add(mostPatience)) {
		return true, nil
	}
	for _, item := range row.Items {
		book, ok, err := s.Stock.Book(ctx, item)
		if err != nil {
			return false, fmt.Errorf("settlement: read the books of item %d: %w", item, err)
		}
		if ok && book.Held > 0 {
			return false, nil
		}
	}
	return true, nil
}

// settle keeps the reports of the sessions whose proof has ended.
func (s *Service) settle(ctx context.Context) error {
	rows, err := seckilldb.New(s.DB).BegunSettlements(ctx)
	if err != nil {
		return fmt.Errorf("settlement: read what has begun: %w", err)
	}
	for _, row := range rows {
		found, ok, failed := runs.Ended(ctx, s.DB, row.ProofRun)
		if failed == nil && ok {
			failed = s.keep(ctx, row.SessionID, &found)
		}
		err = errors.Join(err, failed) // a session that fails keeps no other waiting
	}
	return err
}

// keep stores the report of a session with how its proof ended, and tells operators.
func (s *Service) keep(ctx context.Context, session int64, found *runs.Document) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	r, err := s.Report(ctx, session)
	if err != nil {
		return fmt.Errorf("settlement: report on session %d: %w", session, err)
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("settlement: encode the report on session %d: %w", session, err)
	}
	sum := sha256.Sum256(raw)
	return pg.InTx(ctx, s.DB, func(tx pgx.Tx) error {
		n, err := seckilldb.New(tx).Settle(ctx, seckilldb.SettleParams{SessionID: session, ProofRun: found.Run, Now: s.Clock.Now(), Status: found.Status, Report: string(raw), Sha256: hex.EncodeToString(sum[:])})
		if err != nil || n == 0 {
			return err // 0: another instance has settled it, or begun it again
		}
		subject := fmt.Sprintf("session %d", session)
		what := fmt.Sprintf("%s, %s: proof %d", r.Activity, r.Name, found.Run)
		switch found.Status {
		case runs.StatusViolated:
			return Violated.Raise(ctx, tx, subject, what+" found "+said(found))
		case runs.StatusFailed:
			return Unproved.Raise(ctx, tx, subject, what+" could not be completed: "+said(found))
		}
		return Settled.Raise(ctx, tx, subject, fmt.Sprintf("%s was proved. %d attempts, %d orders, %d paid, %d unpaid, %d refunds; %s.",
			what, r.Orders.Attempts, r.Orders.Created, r.Orders.Paid, r.Orders.Unpaid, r.Orders.Refunds, sold(r)))
	})
}

// sold is how many units of each item were sold.
func sold(r *report.Report) string {
	items := make([]string, len(r.Items))
	for i, item := range r.Items {
		if items[i] = fmt.Sprintf("%s: %d sold", item.Title, item.Sold); !item.Unlimited {
			items[i] += fmt.Sprintf(" of %d", item.Units)
		}
	}
	return strings.Join(items, ", ")
}

// said is what a proof that did not pass says first, in each of its checks.
func said(d *runs.Document) string {
	var says []string
	for _, o := range d.Outcomes {
		switch {
		case o.Error != "":
			says = append(says, fmt.Sprintf("%s %s: %s", o.ID, o.Name, o.Error))
		case len(o.Violations) > 0:
			says = append(says, fmt.Sprintf("%s %s, %d times, first %s: %s", o.ID, o.Name, len(o.Violations), o.Violations[0].Subject, o.Violations[0].Detail))
		}
	}
	if d.Note != "" {
		says = append(says, d.Note)
	}
	return strings.Join(says, "; ")
}
