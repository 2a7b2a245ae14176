package order

import (
	"context"
	"fmt"
	"slices"

	"stampede/order/internal/orderdb"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/watch/proof"
)

// Answers to an attempt that name a number, as a client logs them.
const (
	answerQueued        = "queued"         // 202
	answerAlreadyBought = "already-bought" // 409 with this number
)

// said is a kind of answer about numbers in a client's log.
type said struct {
	subject string                             // what a violation calls the number
	is      func(r *proof.ClientRecord) bool   // whether the record has such an answer
	told    func(r *proof.ClientRecord) string // the answer in words
	none    string                             // what is wrong where there is no order
	// wrong says what else is, "" if nothing; nil if an order of the user is enough.
	wrong func(r *proof.ClientRecord, o orderevent.Order) string
	// excused reports whether a record that is wrong about no other user's order turns out
	// to be right; nil excuses none.
	excused func(ctx context.Context, r *proof.ClientRecord) (bool, error)
}

// CheckClientLog returns I6 and I9 for the answers that clients received: every
// number answered "queued" or "already-bought" has an order, a refusal, or
// still waits; every "won" has a committed order of the same user; and a pushed
// status is one that the order has or had. queue is inventory.
func (c *checker) CheckClientLog(queue Queue, log []proof.ClientRecord) []proof.Check {
	check := func(id, name string, says said) proof.Check {
		return proof.Check{ID: id, Name: name, Run: func(ctx context.Context) ([]proof.Violation, error) { return c.judge(ctx, log, says) }}
	}
	return []proof.Check{
		check("I6", "every number that was answered is known", said{
			subject: "number",
			is:      func(r *proof.ClientRecord) bool { return r.Answer == answerQueued || r.Answer == answerAlreadyBought },
			told:    func(r *proof.ClientRecord) string { return fmt.Sprintf("answered %q", r.Answer) },
			none:    "there is neither an order nor a refusal, and it is not in line",
			excused: func(ctx context.Context, r *proof.ClientRecord) (bool, error) { return c.waitsOrEnded(ctx, queue, r) },
		}),
		// There is nothing to wait for: an order is committed before a shopper sees it.
		check("I9", "every \"won\" has a committed order", said{
			subject: "order",
			is: func(r *proof.ClientRecord) bool {
				return r.Status == orderevent.StatusPending || r.Status == orderevent.StatusPaid
			},
			told: func(*proof.ClientRecord) string { return "shown the order" },
			none: "Postgres has none",
			wrong: func(_ *proof.ClientRecord, o orderevent.Order) string {
				if o.Status == orderevent.StatusRefused {
					return "the number was refused (" + o.Reason + ")"
				}
				return ""
			},
		}),
		check("I9", "every push shows what was committed", said{
			subject: "order",
			is:      func(r *proof.ClientRecord) bool { return r.Pushed != "" },
			told:    func(r *proof.ClientRecord) string { return fmt.Sprintf("pushed %q", r.Pushed) },
			none:    "Postgres has no order",
			wrong: func(r *proof.ClientRecord, o orderevent.Order) string {
				if o.Status == r.Pushed || r.Pushed == orderevent.StatusPending && o.Status != orderevent.StatusRefused {
					return "" // an order that was not refused began unpaid
				}
				return fmt.Sprintf("the order is %q and never was that", o.Status)
			},
			excused: c.wasOnce,
		}),
	}
}

// waitsOrEnded reports whether a number without a row is in line. Checking the line first
// and the rows once more cannot miss a number that moves from one to the other.
func (c *checker) waitsOrEnded(ctx context.Context, queue Queue, r *proof.ClientRecord) (bool, error) {
	_, _, queued, err := queue.Queued(ctx, r.UserID, r.OrderNo)
	if err != nil {
		return false, fmt.Errorf("order: find %s in line: %w", r.OrderNo, err)
	}
	rows, err := table.Many(ctx, c.deps.DB, []ids.ID{r.OrderNo})
	o, found := rows[r.OrderNo]
	return found && o.UserID == r.UserID || !found && queued, err
}

// wasOnce reports whether the user's order had the pushed status earlier.
func (c *checker) wasOnce(ctx context.Context, r *proof.ClientRecord) (bool, error) {
	past, err := orderdb.New(c.deps.DB).HistoryOfOrder(ctx, orderdb.HistoryOfOrderParams{Bucket: r.OrderNo.Bucket(), OrderNo: r.OrderNo})
	if err != nil {
		return false, fmt.Errorf("order: read the history of %s: %w", r.OrderNo, err)
	}
	return slices.ContainsFunc(past, func(h orderdb.HistoryOfOrderRow) bool { return h.Status == r.Pushed }), nil
}

// judge compares such answers with their rows, a query per statusLimit records, and
// returns what is wrong with them.
func (c *checker) judge(ctx context.Context, log []proof.ClientRecord, says said) (violations []proof.Violation, err error) {
	for part := range slices.Chunk(log, statusLimit) {
		var records []*proof.ClientRecord
		var nos []ids.ID
		for i := range part {
			if says.is(&part[i]) {
				records, nos = append(records, &part[i]), append(nos, part[i].OrderNo)
			}
		}
		rows, err := table.Many(ctx, c.deps.DB, nos)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			wrong, excusable := "", says.excused != nil
			switch o, found := rows[r.OrderNo]; {
			case len(violations) >= violationLimit:
			case !found:
				wrong = says.none
			case o.UserID != r.UserID:
				wrong, excusable = fmt.Sprintf("the order is user %d's", o.UserID), false
			case says.wrong != nil:
				wrong = says.wrong(r, o)
			}
			if wrong != "" && excusable {
				if ok, err := says.excused(ctx, r); err != nil {
					return nil, err
				} else if ok {
					wrong = ""
				}
			}
			if wrong != "" {
				violations = append(violations, proof.Violation{
					Subject: says.subject + " " + r.OrderNo.String(), Detail: fmt.Sprintf("User %d was %s; %s.", r.UserID, says.told(r), wrong),
				})
			}
		}
	}
	return violations, nil
}
