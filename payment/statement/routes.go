package statement

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/payment/provider"
	"stampede/payment/statement/internal/statementdb"
	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

const (
	path = "/api/v1/admin/statements/{date}"
	// waitAtMost is how long a request waits for the worker, below a proxy's patience.
	waitAtMost = 15 * time.Second
	// settleAtMost is how long of that a request settles; the rest is for the comparison afterwards.
	settleAtMost = 10 * time.Second
	waitStep     = 100 * time.Millisecond
)

// Routes registers the operators' comparison with statements.
func (s *Service) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: path, ID: "show-statements", Tag: "operator", Role: auth.Viewer,
		Summary:     "How the providers' statements of a day differ from the ledger",
		Description: "As of the last comparison. A day of the shop's overlaps one day of a provider's, or two where their zones differ.",
	}, func(ctx context.Context, in *struct {
		Date     string `path:"date" doc:"The shop's day" example:"2026-11-22"`
		Provider string `query:"provider" maxLength:"32" doc:"Only this provider"`
	},
	) (*httpx.Output[Comparison], error) {
		all, err := s.targets(in.Date, in.Provider, time.Now())
		if err != nil {
			return nil, err
		}
		return answer(pg.Read(ctx, s.deps.Standby, s.deps.DB, func(ctx context.Context, db pg.DB) (Comparison, error) {
			return report(ctx, statementdb.New(db), in.Date, all)
		}))
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: path, ID: "compare-statements", Tag: "operator", Role: auth.Operator,
		Summary: "Fetch and compare the providers' statements of a day, or settle what the comparison proposes", Audit: "statement.apply",
		NoKey: "it settles a movement once, under the provider's number",
		Description: "Without `apply` it fetches the statements again and waits some seconds for them: while `state` is `fetching`, ask with GET. With `apply` it records each missing movement " +
			"whose `proposal` is `settle`, as a callback would have: the order is paid, or the money goes back. That is written into the audit log first and may be repeated. " +
			"It takes ten seconds at most: `more` says that it is to be repeated.",
	}, func(ctx context.Context, in *struct {
		Date string `path:"date" doc:"The shop's day" example:"2026-11-22"`
		Body struct {
			Provider string `json:"provider,omitempty" maxLength:"32" doc:"Only this provider" example:"wechat"`
			Apply    bool   `json:"apply,omitempty"`
		} `nameHint:"StatementsRequest"`
	},
	) (*httpx.Output[Comparison], error) {
		all, err := s.targets(in.Date, in.Body.Provider, time.Now())
		if err != nil {
			return nil, err
		}
		if in.Body.Apply {
			return answer(s.applyAll(ctx, in.Date, all))
		}
		return answer(s.compareAgain(ctx, in.Date, all))
	})
}

func answer(r Comparison, err error) (*httpx.Output[Comparison], error) {
	if err != nil {
		return nil, httpx.Unreachable(fault.T("The database", "数据库"), err)
	}
	return httpx.Answer(r), nil
}

// compareAgain has the worker fetch statements anew and waits for it, within waitAtMost.
func (s *Service) compareAgain(ctx context.Context, date string, all []target) (Comparison, error) {
	for _, t := range all {
		if err := s.want(ctx, t.name, t.day); err != nil {
			return Comparison{}, err
		}
		if err := s.q.FetchAgain(ctx, statementdb.FetchAgainParams{Provider: t.name, Day: civil(t.day)}); err != nil {
			return Comparison{}, err
		}
	}
	app.Kick(s.kick)
	for end := time.Now().Add(waitAtMost); ; {
		r, err := report(ctx, s.q, date, all)
		if err != nil || !r.fetching() || time.Now().After(end) {
			return r, err
		}
		if err := app.Sleep(ctx, waitStep); err != nil {
			return r, err
		}
	}
}

// fetching reports whether a statement is under way.
func (r Comparison) fetching() bool {
	return slices.ContainsFunc(r.Statements, func(st Statement) bool { return st.State == "fetching" })
}

// applyAll settles what is proposed, as much as settleAtMost allows. It goes on when the
// operator leaves, within waitAtMost.
func (s *Service) applyAll(ctx context.Context, date string, all []target) (Comparison, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), waitAtMost)
	defer cancel()
	settling, enough := context.WithTimeout(ctx, settleAtMost)
	defer enough()
	applied := make([]*Settled, len(all))
	for i, t := range all {
		var err error
		if applied[i], err = s.apply(ctx, settling, t); err != nil {
			return Comparison{}, err
		}
	}
	r, err := report(ctx, s.q, date, all)
	for i := range r.Statements {
		r.Statements[i].Settled = applied[i]
	}
	return r, err
}

// maxFailed is how many failures a report names.
const maxFailed = 20

// apply settles what the comparison proposes until settling ends, and compares again. The
// audit log gets each page of it first: a settlement that it does not know cannot happen, and
// one that it knows can be repeated.
func (s *Service) apply(ctx, settling context.Context, t target) (*Settled, error) {
	done := new(Settled)
	for after := (Unmatched{}); !done.More; {
		all, err := differences(ctx, s.q, t, after)
		if err != nil {
			return done, err
		}
		if len(all) == 0 {
			break
		}
		after = all[len(all)-1]
		all = slices.DeleteFunc(all, func(d Unmatched) bool { return d.Proposal != settleIt })
		if len(all) == 0 {
			continue
		}
		err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
			return audit.Record(ctx, tx, "statement.apply", "statement "+t.name+" "+t.day.Date(), audit.Change{Before: all})
		})
		if err != nil {
			return done, err
		}
		for _, d := range all {
			err := settling.Err()
			if err == nil {
				err = s.settle(settling, t.name, d)
			}
			if done.More = err != nil && settling.Err() != nil; done.More {
				break // it was cut off, and has not failed
			}
			if err == nil {
				done.Count++
			} else if len(done.Failed) < maxFailed {
				done.Failed = append(done.Failed, fmt.Sprintf("%s %s: %v", d.Kind, d.Transaction, err))
			}
		}
	}
	return done, s.compare(ctx, t.name, civil(t.day))
}

// settle applies one missing movement.
func (s *Service) settle(ctx context.Context, name string, d Unmatched) error {
	merchant := s.named[name].Profile().Merchant
	if d.Kind == string(provider.Paid) {
		_, err := s.deps.Settle(ctx, name, provider.Capture{
			Merchant: merchant, PaymentNo: d.paymentNo, Transaction: d.Transaction, Amount: d.Stated.Amount, Currency: d.Stated.Currency, At: d.at,
		})
		return err
	}
	back := provider.RefundStatus{
		State: provider.Succeeded, Merchant: merchant, RefundNo: d.refundNo, PaymentNo: d.paymentNo, Transaction: d.Transaction,
		Amount: d.Stated.Amount, Currency: d.Stated.Currency, At: d.at,
	}
	if d.takenBack() {
		back.State = provider.Failed
	}
	return s.deps.SettleRefund(ctx, name, back)
}
