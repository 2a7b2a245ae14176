package order

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"stampede/order/internal/orderdb"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/watch/proof"
)

// The answers about a number that a client logs.
const (
	AnswerQueued        = "queued"         // 202, or "queued" by a poll
	AnswerAlreadyBought = "already-bought" // 409 with this number
	AnswerWon           = "won"            // a poll or a push said pending_payment or paid
	AnswerPushed        = "pushed"         // a push said Status
)

// ClientEntry is one answer that a client received. Only the answers above
// matter to the checks; the log may contain others.
type ClientEntry struct {
	No     ids.ID
	User   int64
	Answer string
	Status string // for AnswerPushed
}

// FromLog returns the entries of a client's log: the answer to each attempt
// that named a number, and whether a poll or a push showed an order.
func FromLog(log []proof.ClientRecord) iter.Seq[ClientEntry] {
	return func(yield func(ClientEntry) bool) {
		for _, t := range log {
			named := t.Answer == AnswerQueued || t.Answer == AnswerAlreadyBought
			if named && !yield(ClientEntry{No: t.OrderNo, User: t.UserID, Answer: t.Answer}) {
				return
			}
			won := t.Status == orderevent.StatusPending || t.Status == orderevent.StatusPaid
			if won && !yield(ClientEntry{No: t.OrderNo, User: t.UserID, Answer: AnswerWon}) {
				return
			}
			if t.Pushed != "" && !yield(ClientEntry{No: t.OrderNo, User: t.UserID, Answer: AnswerPushed, Status: t.Pushed}) {
				return
			}
		}
	}
}

// said is what a client's log says that it was answered about numbers.
type said struct {
	answers []string
	told    func(e ClientEntry) string // the answer in words
	none    string                     // what is wrong where there is no order
	// wrong says what else is, "" if nothing; nil if an order of the user is enough.
	wrong func(e ClientEntry, o orderevent.Order) string
	// excused reports whether an entry that is wrong about no other user's order turns out
	// to be right; nil excuses none.
	excused func(ctx context.Context, e ClientEntry) (bool, error)
}

// CheckClientLog returns I6 and I9 for the answers that clients received: every
// number answered "queued" or "already-bought" has an order, a refusal, or
// still waits; every "won" has a committed order of the same user; and a pushed
// status is one that the order has or had. entries
// is read once per check and may be long; queue is seckill.
func (c *checker) CheckClientLog(queue Queue, entries iter.Seq[ClientEntry]) []proof.Check {
	check := func(id, name string, says said) proof.Check {
		return proof.Check{ID: id, Name: name, Run: func(ctx context.Context) ([]proof.Violation, error) { return c.judge(ctx, entries, says) }}
	}
	return []proof.Check{
		check("I6", "every number that was answered is known", said{
			answers: []string{AnswerQueued, AnswerAlreadyBought},
			told:    func(e ClientEntry) string { return fmt.Sprintf("answered %q", e.Answer) },
			none:    "there is neither an order nor a refusal, and it is not in line",
			excused: func(ctx context.Context, e ClientEntry) (bool, error) { return c.waitsOrEnded(ctx, queue, e) },
		}),
		// There is nothing to wait for: an order is committed before a shopper sees it.
		check("I9", "every \"won\" has a committed order", said{
			answers: []string{AnswerWon},
			told:    func(ClientEntry) string { return "shown the order" },
			none:    "Postgres has none",
			wrong: func(_ ClientEntry, o orderevent.Order) string {
				if o.Status == orderevent.StatusRefused {
					return "the number was refused (" + o.Reason + ")"
				}
				return ""
			},
		}),
		check("I9", "every push shows what was committed", said{
			answers: []string{AnswerPushed},
			told:    func(e ClientEntry) string { return fmt.Sprintf("pushed %q", e.Status) },
			none:    "Postgres has no order",
			wrong: func(e ClientEntry, o orderevent.Order) string {
				if o.Status == e.Status || e.Status == orderevent.StatusPending && o.Status != orderevent.StatusRefused {
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
func (c *checker) waitsOrEnded(ctx context.Context, queue Queue, e ClientEntry) (bool, error) {
	_, _, queued, err := queue.Queued(ctx, e.User, e.No)
	if err != nil {
		return false, fmt.Errorf("order: find %s in line: %w", e.No, err)
	}
	rows, err := table.Many(ctx, c.deps.DB, []ids.ID{e.No})
	o, found := rows[e.No]
	return found && o.UserID == e.User || !found && queued, err
}

// wasOnce reports whether the user's order had the entry's status earlier.
func (c *checker) wasOnce(ctx context.Context, e ClientEntry) (bool, error) {
	past, err := orderdb.New(c.deps.DB).HistoryOfOrder(ctx, orderdb.HistoryOfOrderParams{Bucket: e.No.Bucket(), OrderNo: e.No})
	if err != nil {
		return false, fmt.Errorf("order: read the history of %s: %w", e.No, err)
	}
	return slices.ContainsFunc(past, func(h orderdb.HistoryOfOrderRow) bool { return h.Status == e.Status }), nil
}

// judge compares the entries with these answers with their rows, a query per statusLimit
// entries, and returns what is wrong with them.
func (c *checker) judge(ctx context.Context, entries iter.Seq[ClientEntry], says said) (violations []proof.Violation, err error) {
	part := make([]ClientEntry, 0, statusLimit)
	flush := func() error {
		nos := make([]ids.ID, len(part))
		for i := range part {
			nos[i] = part[i].No
		}
		rows, err := table.Many(ctx, c.deps.DB, nos)
		if err != nil {
			return err
		}
		for _, e := range part {
			o, found := rows[e.No]
			wrong, excusable := "", says.excused != nil
			switch {
			case !found:
				wrong = says.none
			case o.UserID != e.User:
				wrong, excusable = fmt.Sprintf("the order is user %d's", o.UserID), false
			case says.wrong != nil:
				wrong = says.wrong(e, o)
			}
			if wrong == "" || len(violations) >= violationLimit {
				continue
			}
			if excusable {
				if ok, err := says.excused(ctx, e); err != nil {
					return err
				} else if ok {
					continue
				}
			}
			violations = append(violations, proof.Violation{
				Subject: "number " + e.No.String(), Detail: fmt.Sprintf("User %d was %s; %s.", e.User, says.told(e), wrong),
			})
		}
		part = part[:0]
		return nil
	}
	for e := range entries {
		if !slices.Contains(says.answers, e.Answer) {
			continue
		}
		if part = append(part, e); len(part) == statusLimit {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	err = flush() // fills violations
	return violations, err
}
