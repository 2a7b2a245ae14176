package statement

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/payment/provider"
	"stampede/payment/statement/internal/statementdb"
	"stampede/platform/store/pg"
)

const (
	// batch is how many lines one statement of SQL writes.
	batch = 1000
	// skew is how far our clock may be behind a company's: what we recorded in the last
	// minute of a day may be the next day's line, and is compared then.
	skew = time.Minute
)

// fetch fetches one claimed statement and compares it. A failure is noted on its row.
func (s *Service) fetch(ctx context.Context, row statementdb.PaymentsStatement) {
	subject := row.Provider + " " + row.Day.Format(time.DateOnly)
	fetching, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	err := s.fetchLines(fetching, row)
	if err == nil {
		err = s.compareAll(fetching, row)
	}
	if ctx.Err() != nil || err == nil {
		return // done, or the process stops: the statement is due again when its claim ends
	}
	if !errors.Is(err, provider.ErrNotReady) {
		s.deps.Log.WarnContext(ctx, "statement not fetched, retrying later", "provider", row.Provider, "day", row.Day.Format(time.DateOnly), "attempts", row.Attempts, "error", err)
	}
	noteErr := s.q.NotFetched(ctx, statementdb.NotFetchedParams{LastError: err.Error(), Retry: retryAfter, Provider: row.Provider, Day: row.Day})
	if row.Attempts >= alarmAfter {
		noteErr = errors.Join(noteErr, alarmMissing.Raise(ctx, s.deps.DB, "statement "+subject, err.Error()))
	}
	if noteErr != nil {
		s.deps.Log.WarnContext(ctx, "failure of a statement not recorded", "provider", row.Provider, "error", noteErr)
	}
}

// fetchLines replaces the lines of a statement. It holds no transaction meanwhile: until
// the end, the row says that the statement is due.
func (s *Service) fetchLines(ctx context.Context, row statementdb.PaymentsStatement) error {
	if err := s.q.DropLines(ctx, statementdb.DropLinesParams{Provider: row.Provider, Day: row.Day}); err != nil {
		return err
	}
	zone := s.zone(s.named[row.Provider].Profile())
	none := statementdb.AddLinesParams{Provider: row.Provider, Day: row.Day}
	lines, total := none, int64(0)
	for l, err := range s.named[row.Provider].Statement(ctx, provider.Day{From: row.FromTime.In(zone), To: row.ToTime.In(zone)}) {
		if err != nil {
			return err
		}
		if l.Transaction == "" || l.Kind != provider.Paid && l.Kind != provider.PaidBack && l.Kind != provider.ChargedBack {
			return fmt.Errorf("statement: a line without kind or transaction: %+v", l)
		}
		lines.Kinds, lines.Txns = append(lines.Kinds, string(l.Kind)), append(lines.Txns, l.Transaction)
		lines.PaymentNos, lines.RefundNos = append(lines.PaymentNos, l.PaymentNo), append(lines.RefundNos, l.RefundNo)
		lines.Amounts, lines.Currencies, lines.Times = append(lines.Amounts, l.Amount), append(lines.Currencies, l.Currency), append(lines.Times, l.At)
		if total++; len(lines.Txns) == batch {
			if err := s.q.AddLines(ctx, lines); err != nil {
				return err
			}
			lines = none
		}
	}
	if err := s.q.AddLines(ctx, lines); err != nil {
		return err
	}
	return s.q.Fetched(ctx, statementdb.FetchedParams{Lines: total, Provider: row.Provider, Day: row.Day})
}

// compareAll compares a statement that was fetched, and the next day's, whose first rows
// may be its lines.
func (s *Service) compareAll(ctx context.Context, row statementdb.PaymentsStatement) error {
	for _, day := range []time.Time{row.Day, row.Day.AddDate(0, 0, 1)} {
		if err := s.compare(ctx, row.Provider, day); err != nil {
			return fmt.Errorf("statement: compare %s %s: %w", row.Provider, day.Format(time.DateOnly), err)
		}
	}
	return nil
}

// compare compares a statement with the ledger, if it was fetched and is wanted, and
// raises the alarm if they differ.
func (s *Service) compare(ctx context.Context, name string, day time.Time) error {
	return pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		q := s.q.WithTx(tx)
		rows, err := q.LockStatement(ctx, statementdb.LockStatementParams{Provider: name, Day: day})
		if err != nil || len(rows) == 0 || rows[0].Status != statusFetched || !rows[0].Wanted {
			return err
		}
		row := rows[0]
		whole, err := q.IsFetched(ctx, statementdb.IsFetchedParams{Provider: name, Day: day.AddDate(0, 0, -1)})
		if err != nil {
			return err
		}
		if err := q.DropDifferences(ctx, statementdb.DropDifferencesParams{Provider: name, Day: day}); err != nil {
			return err
		}
		if err := q.Compare(ctx, statementdb.CompareParams{
			Provider: name, Day: day, FromTime: row.FromTime.Add(-skew), ToTime: row.ToTime.Add(-skew), Partial: !whole,
		}); err != nil {
			return err
		}
		if err := q.Compared(ctx, statementdb.ComparedParams{Partial: !whole, Provider: name, Day: day}); err != nil {
			return err
		}
		sums, err := q.Sums(ctx, statementdb.SumsParams{Provider: name, Day: day})
		if err != nil || len(sums) == 0 {
			return err
		}
		said := make([]string, len(sums))
		for i, sum := range sums {
			said[i] = fmt.Sprintf("%d %s %ss: statement %s, ledger %s", sum.Lines, sum.Class, sum.Kind, money(sum.Stated, sum.Currency), money(sum.Booked, sum.Currency))
		}
		return alarmDiffers.Raise(ctx, tx, "statement "+name+" "+day.Format(time.DateOnly), strings.Join(said, "; ")+".")
	})
}

// statusFetched is a statement's status once its lines are here.
const statusFetched = "fetched"

func money(amount int64, currency string) orderevent.Money {
	return orderevent.Money{Amount: amount, Currency: currency}
}
