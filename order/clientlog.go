package order

import (
	"context"
	"fmt"
	"iter"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/watch/proof"
)

// What a client notes that it was told about a number.
const (
	AnswerQueued        = "queued"         // 202, or "queued" by a poll
	AnswerAlreadyBought = "already-bought" // 409 with this number
	AnswerWon           = "won"            // a poll or a push said pending_payment or paid
)

// ClientEntry is one thing that a client was told. Only the answers above mean
// something to the checks; entries with others may be in the log as well.
type ClientEntry struct {
	No     ids.ID
	User   int64
	Answer string
}

// FromLog tells the entries of a client's log: the answer to each attempt that
// was queued, and whether a poll or a push told of an order.
func FromLog(log []proof.ClientRecord) iter.Seq[ClientEntry] {
	return func(yield func(ClientEntry) bool) {
		for _, t := range log {
			if t.Answer == AnswerQueued && !yield(ClientEntry{No: t.OrderNo, User: t.UserID, Answer: AnswerQueued}) {
				return
			}
			won := t.Status == orderevent.StatusPending || t.Status == orderevent.StatusPaid
			if won && !yield(ClientEntry{No: t.OrderNo, User: t.UserID, Answer: AnswerWon}) {
				return
			}
		}
	}
}

// CheckClientLog returns I6 and I9 for what clients were told: every number
// answered "queued" or "already-bought" has an order, a refusal, or still
// waits; and nobody was told "won" without a committed order of his own.
// entries is read once per check and may be long; queue is seckill.
func (s *Service) CheckClientLog(queue Queue, entries iter.Seq[ClientEntry]) []proof.Check {
	return []proof.Check{
		{ID: "I6", Name: "every number that was answered is known", Run: func(ctx context.Context) ([]proof.Violation, error) {
			return s.checkAnswered(ctx, queue, entries)
		}},
		{ID: "I9", Name: "nobody was told \"won\" without a committed order", Run: func(ctx context.Context) ([]proof.Violation, error) {
			return s.checkWon(ctx, entries)
		}},
	}
}

// checkAnswered holds everybody who was told of a place in line against the rows:
// the number has an order or a refusal, or stands in line.
func (s *Service) checkAnswered(ctx context.Context, queue Queue, entries iter.Seq[ClientEntry]) ([]proof.Violation, error) {
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
	suspects, err := s.judgeLog(ctx, entries, told, judge)
	if err != nil || len(suspects) == 0 {
		return nil, err
	}
	// A number without a row may be in line. Who is asked about the line first
	// and about the rows once more cannot miss one that moves from one to the
	// other.
	var violations []proof.Violation
	for _, sus := range suspects {
		if _, _, queued, err := queue.Queued(ctx, sus.entry.User, sus.entry.No); err != nil {
			return nil, fmt.Errorf("order: ask for %s in line: %w", sus.entry.No, err)
		} else if queued {
			continue
		}
		rows, err := s.readRows(ctx, []ids.ID{sus.entry.No})
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

// checkWon holds everybody who was shown an order against the rows. There is
// nothing to wait for: what a shopper has seen was committed before.
func (s *Service) checkWon(ctx context.Context, entries iter.Seq[ClientEntry]) ([]proof.Violation, error) {
	suspects, err := s.judgeLog(ctx, entries, func(e ClientEntry) bool { return e.Answer == AnswerWon },
		func(e ClientEntry, row orderevent.Order, found bool) string {
			switch {
			case !found:
				return fmt.Sprintf("User %d was told that the order is there; Postgres has none.", e.User)
			case row.UserID != e.User:
				return fmt.Sprintf("User %d was told that the order is there; it is user %d's.", e.User, row.UserID)
			case row.Status == orderevent.StatusRefused:
				return fmt.Sprintf("User %d was told that the order is there; the number was refused (%s).", e.User, row.Reason)
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

// suspect is an entry that does not agree with what is committed.
type suspect struct {
	entry  ClientEntry
	detail string
}

// judgeLog compares the relevant entries with their rows, a query per
// statusLimit entries, and returns those that judge finds fault with.
func (s *Service) judgeLog(ctx context.Context, entries iter.Seq[ClientEntry], relevant func(ClientEntry) bool,
	judge func(e ClientEntry, row orderevent.Order, found bool) string,
) ([]suspect, error) {
	var suspects []suspect
	part := make([]ClientEntry, 0, statusLimit)
	flush := func() error {
		nos := make([]ids.ID, len(part))
		for i := range part {
			nos[i] = part[i].No
		}
		rows, err := s.readRows(ctx, nos)
		if err != nil {
			return err
		}
		for _, e := range part {
			row, found := rows[e.No]
			if detail := judge(e, row, found); detail != "" {
				suspects = append(suspects, suspect{entry: e, detail: detail})
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
