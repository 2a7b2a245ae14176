package statement

import (
	"context"
	"fmt"
	"slices"
	"time"

	"stampede/order/orderevent"
	"stampede/payment/provider"
	"stampede/payment/statement/internal/statementdb"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
)

// Comparison is the comparison of a shop's day with its providers' statements.
type Comparison struct {
	Date       string      `json:"day" format:"date"`
	Statements []Statement `json:"statements" nullable:"false"`
}

// Statement is the comparison with one statement.
type Statement struct {
	Provider   string         `json:"provider" example:"wechat"`
	Day        string         `json:"day" format:"date" doc:"In the provider's zone"`
	State      string         `json:"state" enum:"none,fetching,failed,compared" doc:"none: it was not asked for; failed: it will be tried again"`
	Error      string         `json:"error,omitempty" doc:"Of the last attempt"`
	Lines      int64          `json:"lines"`
	ComparedAt string         `json:"compared_at,omitempty" format:"date-time"`
	Partial    bool           `json:"partial,omitempty" doc:"The statement of the day before is not fetched yet, so that extra rows are not known"`
	Sums       []UnmatchedSum `json:"sums" nullable:"false"`
	// Differences are the first of them, in the order of class, kind and transaction.
	Differences []Unmatched `json:"differences" nullable:"false" doc:"The first 500"`
	Settled     *Settled    `json:"settled,omitempty"`
}

// UnmatchedSum adds up the differences of one kind.
type UnmatchedSum struct {
	Class    string           `json:"class" enum:"missing,extra,different"`
	Kind     string           `json:"kind" enum:"capture,refund,refund_reversal,chargeback,chargeback_reversal"`
	Lines    int64            `json:"lines"`
	Stated   orderevent.Money `json:"stated" doc:"In the statement"`
	Recorded orderevent.Money `json:"recorded" doc:"In the ledger"`
}

// Unmatched is a movement in which statement and ledger differ.
type Unmatched struct {
	Class       string           `json:"class" enum:"missing,extra,different"`
	Kind        string           `json:"kind" enum:"capture,refund,refund_reversal,chargeback,chargeback_reversal"`
	Transaction string           `json:"transaction" doc:"The provider's number of the movement" example:"4200001234202611110123456789"`
	PaymentNo   string           `json:"payment_no,omitempty"`
	RefundNo    string           `json:"refund_no,omitempty"`
	Stated      orderevent.Money `json:"stated"`
	Recorded    orderevent.Money `json:"recorded"`
	At          string           `json:"at" format:"date-time"`
	Proposal    string           `json:"proposal" enum:"settle,look" doc:"settle: record it, as a callback would have; look: a person has to find out"`

	paymentNo, refundNo ids.ID
	at                  time.Time
}

// takenBack reports whether the provider made a refund and took it back, of which we
// know the first alone.
func (d Unmatched) takenBack() bool {
	return d.Class == "different" && d.Kind == string(provider.PaidBack) && d.Stated.Amount == 0 && d.Recorded.Amount > 0
}

// Settled is what settling the proposals did.
type Settled struct {
	Count  int      `json:"count"`
	More   bool     `json:"more,omitempty" doc:"The request took its time before all was settled; send it again"`
	Failed []string `json:"failed,omitempty" doc:"The first 20 that could not be settled, with the reason" example:"[\"0198f2c8b5d07c3e9a4f1b2c3d4e5f61: the order is not paid\"]"`
}

// settleIt is the proposal of a movement that names a number of ours.
const (
	settleIt = "settle"
	lookAtIt = "look"
)

// page is how many differences are read at a time, and how many a report lists.
const page = 500

// target is one statement that a request is about.
type target struct {
	name string
	day  provider.Day
}

// targets are the statements of a shop's day, of one provider or of all.
func (s *Service) targets(date, name string, now time.Time) (all []target, err error) {
	day, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return nil, fault.Plain(fault.Invalid, fault.T("The date is YYYY-MM-DD.", "日期格式为 YYYY-MM-DD。"))
	}
	if name != "" && s.named[name] == nil {
		return nil, fault.Plain(fault.Invalid,
			fault.T(`There is no payment provider "{name}" here.`, "没有支付渠道“{name}”。", "name", name))
	}
	for _, p := range s.deps.Providers {
		profile := p.Profile()
		if name != "" && name != profile.Name {
			continue
		}
		for _, d := range s.days(profile, day) {
			if d.To.After(now) {
				return nil, fault.Plain(fault.Invalid,
					fault.T("The day {day} is not over at {provider}; ask again after {end}.",
						"{provider} 的 {day} 尚未结束，请在 {end} 之后查询。",
						"day", d.Date(), "provider", profile.Name, "end", d.To.UTC().Format(time.RFC3339)))
			}
			all = append(all, target{profile.Name, d})
		}
	}
	return all, nil
}

// report reads the comparison of targets.
func report(ctx context.Context, q *statementdb.Queries, date string, all []target) (Comparison, error) {
	r := Comparison{Date: date, Statements: []Statement{}}
	for _, t := range all {
		st, err := statement(ctx, q, t)
		if err != nil {
			return r, fmt.Errorf("statement: report %s %s: %w", t.name, t.day.Date(), err)
		}
		r.Statements = append(r.Statements, st)
	}
	return r, nil
}

func statement(ctx context.Context, q *statementdb.Queries, t target) (Statement, error) {
	st := Statement{Provider: t.name, Day: t.day.Date(), State: "none", Sums: []UnmatchedSum{}, Differences: []Unmatched{}}
	rows, err := q.Statement(ctx, statementdb.StatementParams{Provider: t.name, Day: civil(t.day)})
	if err != nil || len(rows) == 0 {
		return st, err
	}
	row := rows[0]
	st.Lines, st.Error, st.Partial = row.Lines, row.LastError, row.Partial
	switch {
	case row.Status == statusFetched && row.ComparedAt != nil:
		st.State = "compared"
	case row.LastError != "":
		st.State = "failed"
		return st, nil
	default:
		st.State = "fetching"
		return st, nil
	}
	st.ComparedAt = orderevent.Time(*row.ComparedAt)
	sums, err := q.Sums(ctx, statementdb.SumsParams{Provider: t.name, Day: civil(t.day)})
	if err != nil {
		return st, err
	}
	for _, sum := range sums {
		st.Sums = append(st.Sums, UnmatchedSum{sum.Class, sum.Kind, sum.Lines, money(sum.Stated, sum.Currency), money(sum.Booked, sum.Currency)})
	}
	st.Differences, err = differences(ctx, q, t, Unmatched{})
	return st, err
}

// differences returns a page of differences with their proposals, after one.
func differences(ctx context.Context, q *statementdb.Queries, t target, after Unmatched) ([]Unmatched, error) {
	rows, err := q.Differences(ctx, statementdb.DifferencesParams{
		Provider: t.name, Day: civil(t.day), AfterClass: after.Class, AfterKind: after.Kind, AfterTxn: after.Transaction, AtMost: page,
	})
	if err != nil {
		return nil, err
	}
	ours, err := known(ctx, q, t.name, rows)
	if err != nil {
		return nil, err
	}
	list := make([]Unmatched, len(rows))
	for i, r := range rows {
		d := Unmatched{
			Class: r.Class, Kind: r.Kind, Transaction: r.ProviderTxn, Stated: money(r.Stated, r.Currency), Recorded: money(r.Booked, r.Currency),
			At: orderevent.Time(r.At), Proposal: lookAtIt, paymentNo: r.PaymentNo, refundNo: r.RefundNo, at: r.At,
		}
		no := r.PaymentNo
		if r.Kind == string(provider.PaidBack) {
			no = r.RefundNo
		}
		if r.Kind != string(provider.ChargedBack) && slices.Contains(ours, no) && (r.Class == "missing" && r.Stated > 0 || d.takenBack()) {
			d.Proposal = settleIt
		}
		if !r.PaymentNo.IsZero() {
			d.PaymentNo = r.PaymentNo.String()
		}
		if !r.RefundNo.IsZero() {
			d.RefundNo = r.RefundNo.String()
		}
		list[i] = d
	}
	return list, nil
}

// known are those numbers of the rows that are refunds of ours at the provider, unless they
// succeeded and were not taken back, and payments that are not captured.
func known(ctx context.Context, q *statementdb.Queries, name string, rows []statementdb.DifferencesRow) ([]ids.ID, error) {
	of := statementdb.KnownParams{Provider: name}
	for _, r := range rows {
		of.PaymentNos, of.PaymentBuckets = append(of.PaymentNos, r.PaymentNo), append(of.PaymentBuckets, r.PaymentNo.Bucket())
		of.RefundNos, of.RefundBuckets, of.Stated = append(of.RefundNos, r.RefundNo), append(of.RefundBuckets, r.RefundNo.Bucket()), append(of.Stated, r.Stated)
	}
	return q.Known(ctx, of)
}
