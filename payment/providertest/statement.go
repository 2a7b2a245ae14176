package providertest

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"time"

	"stampede/payment/provider"
)

// statement: the lines of a day have the keys that callbacks and queries report, by which
// they are compared with the ledger.
func statement(t *testing.T, s *shop) {
	go s.acknowledgeAll()
	c := s.paid()
	r := s.refundOf(c, s.query(c.PaymentNo).Capture)
	r.Amount = 300
	back := s.refunded(r)
	today := s.day(time.Now())
	for _, err := range s.Provider.Statement(t.Context(), today) {
		if !errors.Is(err, provider.ErrNotReady) {
			t.Errorf("the statement of today gave %v, want ErrNotReady", err)
		}
		break
	}
	s.Backdate(c.PaymentNo, 72*time.Hour) // statements may be made late on the next day
	paid := s.query(c.PaymentNo).Capture
	days := []provider.Day{s.day(paid.At), s.day(paid.At.Add(24 * time.Hour))} // the refund may have come after midnight
	var lines []provider.Line
	for _, d := range days {
		for l, err := range s.Provider.Statement(t.Context(), d) {
			if err != nil {
				t.Fatalf("statement of %s: %v", d.Date(), err)
			}
			if l.At.Before(d.From) || !l.At.Before(d.To) {
				t.Errorf("a line of another day: %+v", l)
			}
			if l.PaymentNo == c.PaymentNo {
				lines = append(lines, l)
			}
		}
	}
	want := []provider.Line{
		{Kind: provider.Paid, PaymentNo: c.PaymentNo, Transaction: paid.Transaction, Amount: c.Amount, Currency: c.Currency},
		{Kind: provider.PaidBack, PaymentNo: c.PaymentNo, RefundNo: r.RefundNo, Transaction: cmp.Or(back.Transaction, r.RefundNo.String()), Amount: 300, Currency: c.Currency},
	}
	for i := range lines {
		lines[i].At = time.Time{}
	}
	slices.SortFunc(lines, func(a, b provider.Line) int { return cmp.Compare(a.Kind, b.Kind) })
	if !slices.Equal(lines, want) {
		t.Errorf("the statement has %+v, want %+v", lines, want)
	}
	for l, err := range s.Provider.Statement(t.Context(), s.day(paid.At.Add(-24*time.Hour))) {
		if err != nil || l.PaymentNo == c.PaymentNo {
			t.Errorf("the statement of the day before: %+v, %v", l, err)
		}
	}
}

// day is the provider's day that holds a time.
func (s *shop) day(at time.Time) provider.Day {
	return provider.DayOf(at, cmp.Or(s.Provider.Profile().Zone, time.UTC))
}
