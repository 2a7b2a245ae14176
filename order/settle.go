package order

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"stampede/inventory"
	"stampede/order/internal/orderdb"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/inbox"
	"stampede/platform/store/pg"
	"stampede/seckill/seckillevent"
)

// writerName is the consumer's name in the inbox and on dead letters.
const writerName = "order-writer"

// settled is the outcome of one transaction's messages.
type settled struct {
	created, refused []orderevent.Order
	known            int      // entries whose number already had a row
	events           []ids.ID // those of created and refused
}

// care is how much a transaction expects to go wrong. Each level costs more;
// the writer moves up when the cheaper one ran into a constraint.
type care uint8

const (
	optimistic care = iota // every entry becomes an order
	careful                // some are known or duplicates
	rationed               // and Postgres has fewer units than were granted
)

// settle writes the orders of many messages inside tx. Every entry reaches an
// end: it becomes an order, or a refused row with its reason, or it is known
// already from an earlier delivery. The release of a refused number follows
// from the event that is in the outbox of the same transaction.
//
// An optimistic attempt fails on the first entry that does not fit (a unique key, or
// CHECK never_oversold) and changes nothing.
//
// Locks: stock rows by (item, shard) first. They also keep two writers from
// settling the same item at once, which makes the reads below stable.
func (w *writer) settle(ctx context.Context, tx pgx.Tx, batches []*seckillevent.Batch, how care) (settled, error) {
	var out settled
	stocks, err := w.deps.Stock.Lock(ctx, tx, stockKeys(batches))
	if err != nil {
		return out, fmt.Errorf("lock stock: %w", err)
	}
	candidates, refused, known, err := w.sortOut(ctx, tx, batches, stocks)
	if err != nil {
		return out, err
	}
	out.known = known
	if how == rationed {
		if candidates, refused, err = w.rationOut(ctx, tx, batches, stocks, candidates, refused); err != nil {
			return out, err
		}
	}
	// One time for all orders, by Postgres's clock, so that they fall due together.
	at, err := pg.Now(ctx, tx)
	if err != nil {
		return out, fmt.Errorf("read clock: %w", err)
	}
	at = at.UTC()
	out.created = ordersOf(batches, candidates, orderevent.StatusPending, at)
	if how == optimistic {
		err = copyIn(ctx, tx, out.created)
	} else {
		out.created, err = insert(ctx, tx, out.created)
	}
	if err != nil {
		return out, err
	}
	if missing := len(candidates) - len(out.created); missing > 0 {
		twice, err := duplicates(ctx, tx, candidates)
		if err != nil {
			return out, err
		}
		refused = append(refused, twice...)
		out.known += missing - len(twice)
	}
	if out.refused, err = insert(ctx, tx, ordersOf(batches, refused, orderevent.StatusRefused, at)); err != nil {
		return out, err
	}
	out.known += len(refused) - len(out.refused)

	// Units are taken for rows that were really inserted, neither for duplicates
	// nor for redelivered numbers.
	if len(out.created) > 0 {
		if err := w.deps.Stock.Deduct(ctx, tx, movements(out.created)); err != nil {
			return out, fmt.Errorf("deduct stock: %w", err)
		}
	}
	events, err := table.Publish(ctx, tx, orderevent.SubjectCreated, out.created...)
	if err != nil {
		return out, err
	}
	more, err := table.Publish(ctx, tx, orderevent.SubjectRefused, out.refused...)
	out.events = slices.Concat(events, more)
	return out, err
}

// sortOut sorts the entries by what is known without reading their rows: those
// of messages written before are done; those of an old epoch, of an item
// unknown to Postgres and of blocked users are refused; the others are
// candidates. A blocked user's number that already has a row keeps it.
func (w *writer) sortOut(ctx context.Context, tx pgx.Tx, batches []*seckillevent.Batch, stocks map[inventory.Key]inventory.Stock) (candidates, refused []entry, known int, err error) {
	messages := make([]ids.ID, len(batches))
	total := 0
	for i, b := range batches {
		messages[i] = b.ID
		total += len(b.Grants)
	}
	fresh, err := inbox.Fresh(ctx, tx, writerName, messages)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("note messages: %w", err)
	}
	candidates = make([]entry, 0, total)
	for i, b := range batches {
		if !fresh[b.ID] {
			known += len(b.Grants)
			continue
		}
		fresh[b.ID] = false // the same message may have been fetched twice
		reason := ""
		stock, ok := stocks[inventory.Key{ItemID: b.ItemID, Shard: b.Shard}]
		switch {
		case !ok:
			// The shopper's answer was "queued", so the number has to end; without a
			// stock row it cannot end as an order. An operator has to find out why.
			reason = orderevent.ReasonInterrupted
			if err := alarmNoStock.Raise(ctx, tx, inventory.ItemSubject(b.ItemID), ""); err != nil {
				return nil, nil, 0, err
			}
		case b.Epoch < stock.Epoch:
			reason = orderevent.ReasonInterrupted
		}
		for j := range b.Grants {
			e := entry{grant: &b.Grants[j], from: i, reason: reason}
			if reason == "" && w.deps.Blocked != nil && w.deps.Blocked(e.grant.User) {
				e.reason = orderevent.ReasonBlocked
			}
			if e.reason != "" {
				refused = append(refused, e)
			} else {
				candidates = append(candidates, e)
			}
		}
	}
	return candidates, refused, known, nil
}

// rationOut reads from the database what ration needs and returns its decision.
func (w *writer) rationOut(ctx context.Context, tx pgx.Tx, batches []*seckillevent.Batch, stocks map[inventory.Key]inventory.Stock, candidates, refused []entry) (accepted, allRefused []entry, err error) {
	known, err := knownNumbers(ctx, tx, candidates)
	if err != nil {
		return nil, nil, err
	}
	taken, err := takenBy(ctx, tx, batches, candidates)
	if err != nil {
		return nil, nil, err
	}
	available := make(map[inventory.Key]int32, len(stocks))
	for key, stock := range stocks {
		if !stock.Unlimited {
			available[key] = stock.Available
		}
	}
	accepted, rejected := ration(candidates, batches, known, taken, available)
	short := make(map[int64]int)
	for _, e := range rejected {
		if e.reason == orderevent.ReasonShortfall {
			short[batches[e.from].ItemID]++
		}
	}
	for item, numbers := range short {
		if err := alarmShortfall.Raise(ctx, tx, inventory.ItemSubject(item), fmt.Sprintf("%d numbers were refused.", numbers)); err != nil {
			return nil, nil, err
		}
	}
	// The known ones are passed along as candidates: the insert leaves them out
	// and the caller counts them.
	for _, e := range candidates {
		if known[e.grant.No] {
			accepted = append(accepted, e)
		}
	}
	return accepted, append(refused, rejected...), nil
}

// duplicates returns the candidates that have no row, be it new or older: another live
// order of the same user kept them out.
func duplicates(ctx context.Context, tx pgx.Tx, candidates []entry) ([]entry, error) {
	known, err := knownNumbers(ctx, tx, candidates)
	if err != nil {
		return nil, err
	}
	left := slices.DeleteFunc(slices.Clone(candidates), func(e entry) bool { return known[e.grant.No] })
	for i := range left {
		left[i].reason = orderevent.ReasonDuplicate
	}
	return left, nil
}

func knownNumbers(ctx context.Context, tx pgx.Tx, entries []entry) (map[ids.ID]bool, error) {
	nos := make([]ids.ID, len(entries))
	for i, e := range entries {
		nos[i] = e.grant.No
	}
	rows, err := orderdb.New(tx).ReadStatuses(ctx, orderdb.ReadStatusesParams{OrderNos: nos, Buckets: ids.BucketsOf(nos)})
	if err != nil {
		return nil, fmt.Errorf("look up numbers: %w", err)
	}
	known := make(map[ids.ID]bool, len(rows))
	for _, r := range rows {
		known[r.OrderNo] = true
	}
	return known, nil
}

// takenBy reads the live orders of the entries' users.
func takenBy(ctx context.Context, tx pgx.Tx, batches []*seckillevent.Batch, entries []entry) (map[userOf]bool, error) {
	var p orderdb.LiveOrdersOfUsersParams
	for _, e := range entries {
		b := batches[e.from]
		p.Buckets = append(p.Buckets, e.grant.No.Bucket())
		p.UserIds = append(p.UserIds, e.grant.User)
		p.ItemIds = append(p.ItemIds, b.ItemID)
		p.ActivityIds = append(p.ActivityIds, b.ActivityID)
	}
	rows, err := orderdb.New(tx).LiveOrdersOfUsers(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("look up live orders: %w", err)
	}
	taken := make(map[userOf]bool, len(rows))
	for _, r := range rows {
		taken[userOf{id: r.ItemID, user: r.UserID}] = true
		if r.OnePerActivity {
			taken[userOf{activity: true, id: r.ActivityID, user: r.UserID}] = true
		}
	}
	return taken, nil
}

func stockKeys(batches []*seckillevent.Batch) []inventory.Key {
	keys := make([]inventory.Key, 0, len(batches))
	for _, b := range batches {
		keys = append(keys, inventory.Key{ItemID: b.ItemID, Shard: b.Shard})
	}
	slices.SortFunc(keys, compareKeys)
	return slices.Compact(keys)
}

func compareKeys(a, b inventory.Key) int {
	return cmp.Or(cmp.Compare(a.ItemID, b.ItemID), cmp.Compare(a.Shard, b.Shard))
}
