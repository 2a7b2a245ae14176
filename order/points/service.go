package points

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/order/orderevent"
	"stampede/order/points/internal/pointsdb"
	"stampede/order/pointsevent"
	"stampede/payment/paymentevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/seckill/seckillevent"
)

// Deps are the package's dependencies; all are required.
type Deps struct {
	DB *pgxpool.Pool // order's
	// Plan has the activities' rules; seckill implements it.
	Plan interface {
		SaleOf(ctx context.Context, item int64) (seckillevent.Sale, error)
	}
	// Returned is how much of an order's money refunds of it have returned, as tx sees it;
	// payment implements it.
	Returned func(ctx context.Context, tx pgx.Tx, no ids.ID) (int64, error)
	// Enter returns the context to read a list in, and what leaves it; see order.
	Enter func(ctx context.Context) (reading context.Context, done func(), err error)
}

// Service keeps the points. Safe for concurrent use.
type Service struct{ deps Deps }

// New returns the service; it starts nothing.
func New(deps Deps) *Service { return &Service{deps} }

// Kinds of entries.
const (
	earned    = "earned"
	takenBack = "taken_back"
	givenBack = "given_back"
)

var subjects = map[string]string{
	earned: pointsevent.SubjectEarned, takenBack: pointsevent.SubjectTakenBack, givenBack: pointsevent.SubjectGivenBack,
}

// attempts is how often an event is tried before it becomes a dead letter: through half an
// hour without Postgres, after which the row locks of an outage are gone.
const attempts = 70

// Subscriptions book the points of the orders that events name.
func (s *Service) Subscriptions() []bus.Subscription {
	orders := bus.Subscription{MaxAttempts: attempts, Layout: orderevent.Layout, Handle: s.ordersChanged}
	refunds := bus.Subscription{MaxAttempts: attempts, Handle: s.refundChanged}
	named := func(sub bus.Subscription, name, filter string) bus.Subscription {
		sub.Name, sub.Filter = name, filter
		return sub
	}
	return []bus.Subscription{
		named(orders, "points-orders-paid", orderevent.SubjectPaid), named(orders, "points-orders-refunded", orderevent.SubjectRefunded),
		named(refunds, "points-refunds", paymentevent.SubjectRefunded), named(refunds, "points-refunds-failed", paymentevent.SubjectRefundFailed),
	}
}

func (s *Service) ordersChanged(ctx context.Context, m bus.Msg) error {
	changed, err := orderevent.Decode(m.Data)
	if err != nil {
		return fmt.Errorf("points: decode %s: %w", m.Subject, err)
	}
	for i := range changed.Orders {
		o := &changed.Orders[i]
		rate, err := s.rate(ctx, o.ItemID)
		if err == nil && rate > 0 {
			err = s.settle(ctx, o.No)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) refundChanged(ctx context.Context, m bus.Msg) error {
	var e paymentevent.Refund // the part that both events have
	if err := json.Unmarshal(m.Data, &e); err != nil {
		return fmt.Errorf("points: decode %s: %w", m.Subject, err)
	}
	return s.settle(ctx, e.OrderNo)
}

func (s *Service) rate(ctx context.Context, item int64) (int64, error) {
	sale, err := s.deps.Plan.SaleOf(ctx, item)
	return int64(sale.PointsRate), err
}

// settle books what the points of an order lack: what it earned, and the difference to what
// its refunds leave of that. An order that was never paid has none.
func (s *Service) settle(ctx context.Context, no ids.ID) error {
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		q := pointsdb.New(tx)
		o, err := q.LockPaidOrder(ctx, pointsdb.LockPaidOrderParams{OrderNo: no, Bucket: no.Bucket()})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		have, err := q.PointsOfOrder(ctx, pointsdb.PointsOfOrderParams{OrderNo: no, Bucket: no.Bucket()})
		if err != nil {
			return err
		}
		book := func(kind string, points int64) error {
			have.Lines++
			have.Balance += points
			e := pointsevent.Entry{EntryNo: ids.NewFor(o.UserID), OrderNo: no, UserID: o.UserID, Points: points}
			err := q.Book(ctx, pointsdb.BookParams{
				Bucket: no.Bucket(), EntryNo: e.EntryNo, OrderNo: no, Line: have.Lines, UserID: o.UserID, Kind: kind, Points: points,
			})
			if err == nil {
				_, err = outbox.Append(ctx, tx, subjects[kind], e)
			}
			return err
		}
		if have.Lines == 0 {
			rate, err := s.rate(ctx, o.ItemID)
			if err != nil {
				return err
			}
			if have.Earned = earns(o.Amount, rate); have.Earned == 0 {
				return nil
			}
			if err := book(earned, have.Earned); err != nil {
				return err
			}
		}
		back := o.Amount
		if o.Status != orderevent.StatusRefunded {
			if back, err = s.deps.Returned(ctx, tx, no); err != nil {
				return err
			}
		}
		lacks := have.Earned - loses(have.Earned, back, o.Amount) - have.Balance
		switch {
		case lacks < 0:
			return book(takenBack, lacks)
		case lacks > 0:
			return book(givenBack, lacks)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("points: settle order %s: %w", no, err)
	}
	return nil
}

// earns is how many points a paid amount earns. Hundreds and the rest are multiplied apart,
// so that no amount that an order can have overflows.
func earns(amount, rate int64) int64 { return amount/100*rate + amount%100*rate/100 }

// loses is how many points earned with an amount go back with a part of it. The product
// may need more than 64 bits.
func loses(points, back, amount int64) int64 {
	if back >= amount {
		return points
	}
	hi, lo := bits.Mul64(uint64(points), uint64(max(back, 0))) //nolint:gosec // neither is negative
	lost, _ := bits.Div64(hi, lo, uint64(amount))              //nolint:gosec // above back, so that the quotient is below points
	return int64(lost)                                         //nolint:gosec // below points
}
