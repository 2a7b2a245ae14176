package sandbox

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"stampede/payment/provider"
	"stampede/payment/sandbox/internal/sandboxdb"
	"stampede/platform/base/ids"
)

// Movement is a line of the bank's statement: a capture, or a refund that succeeded; one
// that bounced has a second line with the amount below 0.
type Movement struct {
	Ref         ids.ID // the payment's or the refund's
	PaymentRef  ids.ID
	PaymentNo   string
	RefundNo    string // empty for a capture
	Transaction string
	Amount      int64
	Currency    string
	At          time.Time
	Bounced     bool // of both lines of a refund that bounced
	ChargedBack bool // and not a capture; the amount is below 0 where the merchant won it back
}

// Mark is a place in a statement: after the movement with this time and number.
type Mark struct {
	At  time.Time `json:"after_time"`
	Ref ids.ID    `json:"after_ref"`
}

// Movements returns a page of what moved on a day, oldest first, after a place; the zero
// Mark is the beginning. A day is stated once it is over.
func (d Desk) Movements(ctx context.Context, day provider.Day, after Mark, atMost int32) ([]Movement, error) {
	now, err := d.bank.q.Clock(ctx)
	if err != nil {
		return nil, err
	}
	if now.Before(day.To) {
		return nil, refuse(http.StatusNotFound, codeNotReady, "the day is not over")
	}
	rows, err := d.bank.q.Movements(ctx, sandboxdb.MovementsParams{
		Merchant: d.merchant, FromTime: day.From, ToTime: day.To, AfterTime: after.At, AfterRef: after.Ref, AtMost: atMost,
	})
	list := make([]Movement, len(rows))
	for i, r := range rows {
		list[i] = Movement{
			Ref: r.Ref, PaymentRef: r.PaymentRef, PaymentNo: r.PaymentNo, RefundNo: r.RefundNo, Transaction: r.Txn, Amount: r.Amount, Currency: r.Currency, At: r.At, Bounced: r.Bounced, ChargedBack: r.Kind == "chargeback",
		}
		if r.RefundNo != "" {
			list[i].Transaction = refundTxn(r.Ref)
		}
	}
	return list, err
}

const (
	opStatement = "statement"
	// codeNotReady is the error of a statement that is not made yet.
	codeNotReady = "not-ready"
	// statementPage is how many lines fit into a message.
	statementPage = 64
)

// statementCall asks for a page of a day's movements.
type statementCall struct {
	call
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Mark
}

// statementReply has the lines as CSV: payment, refund, transaction, amount, currency,
// time, and the bank's number.
type statementReply struct {
	answered
	Lines string `json:"lines"`
	More  int    `json:"more"` // 1 if there are further lines
}

// statement answers a statementCall.
func (n native) statement(ctx context.Context, desk Desk, c statementCall) (statementReply, error) {
	rows, err := desk.Movements(ctx, provider.Day{From: c.From, To: c.To}, c.Mark, statementPage+1)
	if err != nil {
		return statementReply{}, err
	}
	out := statementReply{answered: answered{c.Nonce}}
	if len(rows) > statementPage {
		rows, out.More = rows[:statementPage], 1
	}
	var text strings.Builder
	w := csv.NewWriter(&text)
	for _, m := range rows {
		if m.ChargedBack {
			continue
		}
		if err := w.Write([]string{m.PaymentNo, m.RefundNo, m.Transaction, strconv.FormatInt(m.Amount, 10), m.Currency, m.At.Format(time.RFC3339Nano), m.Ref.String()}); err != nil {
			return out, err
		}
	}
	w.Flush()
	out.Lines = text.String()
	return out, w.Error()
}

// Statement implements provider.Provider.
func (c *Client) Statement(ctx context.Context, d provider.Day) provider.Lines {
	return func(yield func(provider.Line, error) bool) {
		for after := (Mark{}); ; {
			lines, last, more, err := c.statementPage(ctx, d, after)
			if err != nil {
				yield(provider.Line{}, fmt.Errorf("sandbox: statement: %w", err))
				return
			}
			for _, l := range lines {
				if !yield(l, nil) {
					return
				}
			}
			if !more {
				return
			}
			after = last
		}
	}
}

func (c *Client) statementPage(ctx context.Context, d provider.Day, after Mark) (lines []provider.Line, last Mark, more bool, err error) {
	head := c.call(opStatement)
	var r statementReply
	if err := c.exchange(ctx, "statement", head.Nonce, statementCall{call: head, From: d.From, To: d.To, Mark: after}, &r); err != nil {
		return nil, last, false, err
	}
	rows, err := csv.NewReader(strings.NewReader(r.Lines)).ReadAll()
	if err != nil {
		return nil, last, false, err
	}
	for _, row := range rows {
		l, ref, err := readLine(row)
		if err != nil {
			return nil, last, false, err
		}
		lines, last = append(lines, l), Mark{l.At, ref}
	}
	return lines, last, r.More > 0 && len(rows) > 0, nil
}

// readLine reads what statement has written.
func readLine(row []string) (l provider.Line, ref ids.ID, err error) {
	const fields = 7
	if len(row) != fields {
		return l, ref, fmt.Errorf("a line has %d fields", len(row))
	}
	l = provider.Line{Kind: provider.Paid, Transaction: row[2], Currency: row[4]}
	if l.PaymentNo, err = ids.Parse(row[0]); err != nil {
		return l, ref, err
	}
	if row[1] != "" {
		l.Kind = provider.PaidBack
		if l.RefundNo, err = ids.Parse(row[1]); err != nil {
			return l, ref, err
		}
	}
	if l.Amount, err = strconv.ParseInt(row[3], 10, 64); err != nil {
		return l, ref, err
	}
	if l.At, err = time.Parse(time.RFC3339Nano, row[5]); err != nil {
		return l, ref, err
	}
	ref, err = ids.Parse(row[6])
	return l, ref, err
}
