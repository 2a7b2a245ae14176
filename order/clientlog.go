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

// CheckClientLog returns I6 and I9 for the answers that clients received: every
// number answered "queued" or "already-bought" has an order, a refusal, or
// still waits; every "won" has a committed order of the same user; and a pushed
// status is one that the order has or had. entries
// is read once per check and may be long; queue is seckill.
func (c *checker) CheckClientLog(queue Queue, entries iter.Seq[ClientEntry]) []proof.Check {
	return []proof.Check{
		{ID: "I6", Name: "every number that was answered is known", Run: func(ctx context.Context) ([]proof.Violation, error) {
			return c.checkAnswered(ctx, queue, entries)
		}},
		{ID: "I9", Name: "every \"won\" has a committed order", Run: func(ctx context.Context) ([]proof.Violation, error) {
			return c.checkWon(ctx, entries)
		}},
		{ID: "I9", Name: "every push shows what was committed", Run: func(ctx context.Context) ([]proof.Violation, error) {
			return c.checkPushed(ctx, entries)
		}},
	}
}

// checkAnswered compares every answer of a place in line with the rows: the
// number has an order or a refusal, or is in line.
func (c *checker) checkAnswered(ctx context.Context, queue Queue, entries iter.Seq[ClientEntry]) ([]proof.Violation, error) {
	told := func(e ClientEntry) bool { return e.Answer == AnswerQueued || e.Answer == AnswerAlreadyBought }
	judge := func(e ClientEntry, row orderevent.Order, found bool) string {
		if found && row.UserID != e.User {
			return fmt.Sprintf("User %d was answered %q; the order is user %d's.", e.User, e.Answer, row.UserID)
		}
		if !found {
			return fmt.Sprintf("User %d was answered %q; there is neither an order nor a refusal, and it is not in line.", e.User, e.Answer)
		}
		return ""
	}
	suspects, err := c.judgeLog(ctx, entries, told, judge)
	if err != nil || len(suspects) == 0 {
		return nil, err
	}
	// A number without a row may be in line. Checking the line first and the rows
	// once more cannot miss a number that moves from one to the other.
	var violations []proof.Violation
	for _, sus := range suspects {
		if _, _, queued, err := queue.Queued(ctx, sus.entry.User, sus.entry.No); err != nil {
			return nil, fmt.Errorf("order: find %s in line: %w", sus.entry.No, err)
		} else if queued {
			continue
		}
		rows, err := table.Many(ctx, c.deps.DB, []ids.ID{sus.entry.No})
		if err != nil {
			return nil, err
		}
		row, found := rows[sus.entry.No]
		if detail := judge(sus.entry, row, found); detail != "" && len(violations) < violationLimit {
			violations = append(violations, proof.Violation{Subject: "number " + sus.entry.No.String(), Detail: detail})
		}
	}
	return violations, nil
}

// checkWon compares every order shown to a shopper with the rows. There is
// nothing to wait for: an order is committed before a shopper sees it.
func (c *checker) checkWon(ctx context.Context, entries iter.Seq[ClientEntry]) ([]proof.Violation, error) {
	suspects, err := c.judgeLog(ctx, entries, func(e ClientEntry) bool { return e.Answer == AnswerWon },
		func(e ClientEntry, row orderevent.Order, found bool) string {
			switch {
			case !found:
				return fmt.Sprintf("User %d was shown the order; Postgres has none.", e.User)
			case row.UserID != e.User:
				return fmt.Sprintf("User %d was shown the order; it is user %d's.", e.User, row.UserID)
			case row.Status == orderevent.StatusRefused:
				return fmt.Sprintf("User %d was shown the order; the number was refused (%s).", e.User, row.Reason)
			default:
				return ""
			}
		})
	if err != nil {
		return nil, err
	}
	var violations []proof.Violation
	for _, sus := range suspects[:min(len(suspects), violationLimit)] {
		violations = append(violations, proof.Violation{Subject: "order " + sus.entry.No.String(), Detail: sus.detail})
	}
	return violations, nil
}

// checkPushed compares the last push that each shopper received with the order's
// present status and its earlier ones.
func (c *checker) checkPushed(ctx context.Context, entries iter.Seq[ClientEntry]) ([]proof.Violation, error) {
	suspects, err := c.judgeLog(ctx, entries, func(e ClientEntry) bool { return e.Answer == AnswerPushed },
		func(e ClientEntry, row orderevent.Order, found bool) string {
			switch {
			case !found:
				return fmt.Sprintf("User %d was pushed %q; Postgres has no order.", e.User, e.Status)
			case row.UserID != e.User:
				return fmt.Sprintf("User %d was pushed %q; the order is user %d's.", e.User, e.Status, row.UserID)
			case row.Status == e.Status, e.Status == orderevent.StatusPending && row.Status != orderevent.StatusRefused:
				return "" // an order that was not refused began unpaid
			default:
				return fmt.Sprintf("User %d was pushed %q; the order is %q and never was that.", e.User, e.Status, row.Status)
			}
		})
	if err != nil {
		return nil, err
	}
	var violations []proof.Violation
	for _, sus := range suspects {
		if sus.own {
			past, err := orderdb.New(c.deps.DB).HistoryOfOrder(ctx, orderdb.HistoryOfOrderParams{Bucket: sus.entry.No.Bucket(), OrderNo: sus.entry.No})
			if err != nil {
				return nil, fmt.Errorf("order: read the history of %s: %w", sus.entry.No, err)
			}
			if slices.ContainsFunc(past, func(h orderdb.HistoryOfOrderRow) bool { return h.Status == sus.entry.Status }) {
				continue
			}
		}
		if len(violations) < violationLimit {
			violations = append(violations, proof.Violation{Subject: "order " + sus.entry.No.String(), Detail: sus.detail})
		}
	}
	return violations, nil
}

// suspect is an entry that differs from what is committed.
type suspect struct {
	entry  ClientEntry
	detail string
	own    bool // there is an order, the user's
}

// judgeLog compares the relevant entries with their rows, a query per
// statusLimit entries, and returns those for which judge finds a violation.
func (c *checker) judgeLog(ctx context.Context, entries iter.Seq[ClientEntry], relevant func(ClientEntry) bool,
	judge func(e ClientEntry, row orderevent.Order, found bool) string,
) ([]suspect, error) {
	var suspects []suspect
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
			row, found := rows[e.No]
			if detail := judge(e, row, found); detail != "" {
				suspects = append(suspects, suspect{entry: e, detail: detail, own: found && row.UserID == e.User})
			}
		}
		part = part[:0]
		return nil
	}
	for e := range entries {
		if !relevant(e) {
			continue
		}
		if part = append(part, e); len(part) == statusLimit {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	err := flush() // fills suspects
	return suspects, err
}
