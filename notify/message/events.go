package message

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/notify/message/internal/messagedb"
	"stampede/order/disputeevent"
	"stampede/order/orderevent"
	"stampede/payment/paymentevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/inbox"
	"stampede/platform/store/pg"
	"stampede/seckill/seckillevent"
)

// eventAttempts is how often an event is tried before it becomes a dead letter: through an hour without Postgres.
const eventAttempts = 120

// Subscriptions turn events into messages. They need no inbox: a unique key, which outlives the stream, makes one message
// of a kind about a thing.
func (s *Service) Subscriptions() []bus.Subscription {
	return []bus.Subscription{
		{
			Name: "messages-orders", Filter: orderevent.SubjectAll, Layout: orderevent.Layout, MaxAttempts: eventAttempts,
			Handle: s.ordersChanged,
		},
		{Name: "messages-refunds", Filter: paymentevent.SubjectRefunded, MaxAttempts: eventAttempts, Handle: s.refunded},
		{Name: "messages-answers", Filter: disputeevent.SubjectAll, MaxAttempts: eventAttempts, Handle: s.answered},
		{Name: "messages-units-back", Filter: seckillevent.SubjectItemUnitsBack, MaxAttempts: eventAttempts, Handle: s.unitsBack},
	}
}

// draft is a message that may come to be.
type draft struct {
	user   int64
	about  string
	order  ids.ID
	facts  facts
	from   time.Time // when it is sent at the earliest; zero is now
	expire time.Time
}

// makeAtMost bounds one statement: some milliseconds.
const makeAtMost = 1000

// put makes messages of a kind, unless they exist.
func (s *Service) put(ctx context.Context, k Kind, drafts []draft) error {
	rules, err := s.rules(ctx)
	if err != nil {
		return err
	}
	made, err := s.prepare(ctx, rules, k, drafts)
	if err != nil {
		return err
	}
	return insert(ctx, s.deps.DB, made)
}

// prepare returns the rows of messages of a kind: of those that are worth something, to users whom a channel reaches. It
// is apart from insert because a transaction must not wait for another connection of its own pool.
func (s *Service) prepare(ctx context.Context, rules Rules, k Kind, drafts []draft) (made []messagedb.MakeParams, err error) {
	now := s.now()
	drafts = slices.DeleteFunc(drafts, func(d draft) bool { return !d.expire.After(now) })
	if len(s.available()) == 0 || !rules.of(k).On {
		return nil, nil
	}
	for some := range slices.Chunk(drafts, makeAtMost) {
		users := make([]int64, len(some))
		for i := range some {
			users[i] = some[i].user
		}
		readers, err := s.readers(ctx, rules.texts, users)
		if err != nil {
			return nil, err
		}
		p := messagedb.MakeParams{Kind: string(k), Offer: k.Offer()}
		for i := range some {
			d := &some[i]
			if !readers[d.user].reached(k, rules.texts) {
				continue
			}
			raw, err := json.Marshal(d.facts)
			if err != nil {
				return nil, failed("encode what it says", err)
			}
			if d.from.Before(now) {
				d.from = now
			}
			p.Ids, p.Abouts, p.UserIds = append(p.Ids, ids.New()), append(p.Abouts, d.about), append(p.UserIds, d.user)
			p.OrderNos, p.Facts = append(p.OrderNos, d.order), append(p.Facts, raw)
			p.NextTries, p.Expire = append(p.NextTries, d.from), append(p.Expire, d.expire)
		}
		if len(p.Ids) > 0 {
			made = append(made, p)
		}
	}
	return made, nil
}

func insert(ctx context.Context, db messagedb.DBTX, made []messagedb.MakeParams) error {
	for _, p := range made {
		if err := messagedb.New(db).Make(ctx, p); err != nil {
			return fmt.Errorf("message: make messages of the kind %s: %w", p.Kind, err)
		}
	}
	return nil
}

// ordersChanged makes the messages about orders.
func (s *Service) ordersChanged(ctx context.Context, m bus.Msg) error {
	if len(s.available()) == 0 {
		return nil // an event carries thousands of orders
	}
	changed, err := orderevent.Decode(m.Data)
	if err != nil {
		return fmt.Errorf("message: decode %s: %w", m.Subject, err)
	}
	switch m.Subject {
	case orderevent.SubjectCreated:
		return s.put(ctx, Won, aboutOrders(changed.Orders, func(o *orderevent.Order, d *draft) bool {
			d.facts.At, d.expire = o.PayDeadline, o.PayDeadline
			return o.Status == orderevent.StatusPending
		}))
	case orderevent.SubjectPaid:
		return s.put(ctx, Paid, aboutOrders(changed.Orders, func(o *orderevent.Order, d *draft) bool {
			d.expire = o.PaidAt.Add(life[Paid])
			return o.Status == orderevent.StatusPaid
		}))
	case orderevent.SubjectShipped, orderevent.SubjectCompleted:
		return s.shipped(ctx, changed.Orders)
	}
	return nil
}

// aboutOrders are the drafts about those orders that of accepts.
func aboutOrders(orders []orderevent.Order, of func(o *orderevent.Order, d *draft) bool) []draft {
	var drafts []draft
	for i := range orders {
		o := &orders[i]
		d := draft{
			user: o.UserID, about: o.No.String(), order: o.No,
			facts: facts{Item: o.Title, Quantity: o.Quantity, Amount: o.Amount(), Currency: o.Currency},
		}
		if of(o, &d) {
			drafts = append(drafts, d)
		}
	}
	return drafts
}

// shipped reads the parcels, which are not in the events. One that was sent long ago is no news when its order completes.
func (s *Service) shipped(ctx context.Context, orders []orderevent.Order) error {
	var nos []ids.ID
	for i := range orders {
		if orders[i].Handover == orderevent.HandoverShipped {
			nos = append(nos, orders[i].No)
		}
	}
	if len(nos) == 0 {
		return nil
	}
	parcels, err := s.deps.Orders.Parcels(ctx, nos)
	if err != nil {
		return failed("read parcels", err)
	}
	return s.put(ctx, Shipped, aboutOrders(orders, func(o *orderevent.Order, d *draft) bool {
		p, sent := parcels[o.No]
		d.facts.Carrier, d.facts.Tracking, d.expire = p.Carrier, p.TrackingNo, p.At.Add(life[Shipped])
		return sent
	}))
}

func (s *Service) refunded(ctx context.Context, m bus.Msg) error {
	var e paymentevent.Refunded
	if err := json.Unmarshal(m.Data, &e); err != nil {
		return fmt.Errorf("message: decode %s: %w", m.Subject, err)
	}
	return s.put(ctx, Refunded, []draft{{
		user: e.UserID, about: e.RefundNo.String(), order: e.OrderNo, facts: facts{Amount: e.Amount, Currency: e.Currency},
		expire: m.ID.Time().Add(life[Refunded]),
	}})
}

func (s *Service) answered(ctx context.Context, m bus.Msg) error {
	if m.Subject != disputeevent.SubjectAnswered && m.Subject != disputeevent.SubjectClosed {
		return nil
	}
	var e disputeevent.Changed
	if err := json.Unmarshal(m.Data, &e); err != nil {
		return fmt.Errorf("message: decode %s: %w", m.Subject, err)
	}
	return s.put(ctx, Dispute, []draft{{
		user: e.UserID, about: e.DisputeNo.String() + " " + strconv.Itoa(int(e.Version)), order: e.OrderNo,
		expire: m.ID.Time().Add(life[Dispute]),
	}})
}

// messagesPerUnit is how many of those who asked get a message for each returned unit: most of them do not come.
const messagesPerUnit = 10

// unitsBack makes messages to the first who asked. Their asks end in the transaction that notes the event, so that a
// repetition of it reaches no others.
func (s *Service) unitsBack(ctx context.Context, m bus.Msg) error {
	var e seckillevent.Items
	if err := json.Unmarshal(m.Data, &e); err != nil {
		return fmt.Errorf("message: decode %s: %w", m.Subject, err)
	}
	expire := m.ID.Time().Add(life[UnitsBack])
	rules, err := s.rules(ctx)
	if err != nil || !rules.of(UnitsBack).On || len(s.available()) == 0 || !expire.After(s.now()) {
		return err
	}
	return pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		fresh, err := inbox.Fresh(ctx, tx, "messages-units-back", []ids.ID{m.ID})
		if err != nil || !fresh[m.ID] {
			return err
		}
		var drafts []draft
		for _, item := range e.Items {
			most := int64(makeAtMost)
			if !item.Unlimited {
				most = min(most, item.Left*messagesPerUnit)
			}
			first := messagedb.TakeAsksParams{ItemID: item.ItemID, Most: int32(most)} //nolint:gosec // bounded above
			asks, err := messagedb.New(tx).TakeAsks(ctx, first)
			if err != nil {
				return fmt.Errorf("message: read who asked for item %d: %w", item.ItemID, err)
			}
			for _, a := range asks {
				about := "ask " + strconv.FormatInt(a.ID, 10)
				drafts = append(drafts, draft{user: a.UserID, about: about, facts: facts{Item: a.Title}, expire: expire})
			}
		}
		made, err := s.prepare(ctx, rules, UnitsBack, drafts) // reads addresses, from the accounts' pool
		if err != nil {
			return err
		}
		return insert(ctx, tx, made)
	})
}
