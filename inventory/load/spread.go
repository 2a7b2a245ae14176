package load

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/inventory/internal/inventorydb"
	"stampede/inventory/stock"
)

// unitsPerShard is how many units a shard has at least: an item with fewer of them would move units between its shards
// for most of its sale.
const unitsPerShard = 100

// shardsFor is how many shards a Load gives an item: never fewer than it has, because what is on its way names them.
func (s *Service) shardsFor(rows []stock.Row) int {
	most := s.StockShards
	for _, st := range rows {
		if st.PerActivity {
			return len(rows) // one script has to see all items of the activity
		}
	}
	if !rows[0].Unlimited {
		planned := 0
		for _, st := range rows {
			planned += int(st.Planned())
		}
		most = min(most, planned/unitsPerShard)
	}
	return max(len(rows), most)
}

// keptAlive says that the Load goes on while one long statement runs: 300,000 orders take some seconds. Ten times as
// long as a Load may stall is the end of that.
func (s *Service) keptAlive(alive func(), work func() error) error {
	const perStall = 3
	tick := time.NewTicker(s.Stall / perStall)
	defer tick.Stop()
	done := make(chan error, 1)
	go func() { done <- work() }()
	for beats := 0; ; beats++ {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if beats < 10*perStall {
				alive()
			}
		}
	}
}

// reshard gives an item more shards under a new epoch, inside the transaction that has locked its rows. Nothing of it is
// in flight: its grants are written, and the item is fenced. Orders move to the shards of their users with their units,
// and what is available is spread evenly. The event of an order that ended before reaches a shard that does not hold
// it any more, and changes nothing there: the Load reads the end itself.
func (s *Service) reshard(ctx context.Context, tx pgx.Tx, rows []stock.Row, shards int, epoch int64) error {
	item := rows[0].ItemID
	live, err := s.Holds.Rehome(ctx, tx, item, int16(shards)) //nolint:gosec // at most stock.MostShards
	if err != nil {
		return fmt.Errorf("inventory: load item %d: move its orders to %d shards: %w", item, shards, err)
	}
	q := inventorydb.New(tx)
	retaken, err := s.ledger.Retakes(ctx, tx, item)
	if err != nil {
		return err
	}
	p := inventorydb.PutShardsParams{
		ItemID: item, Epoch: epoch, Shards: make([]int16, shards), Totals: make([]int32, shards), Availables: make([]int32, shards), Retakens: make([]int32, shards),
	}
	var moved inventorydb.PutRetakenParams
	for _, r := range retaken {
		home := stock.HomeOf(r.OrderNo.Bucket(), shards)
		p.Retakens[home] += r.Quantity
		moved.OrderNos, moved.Shards = append(moved.OrderNos, r.OrderNo), append(moved.Shards, home)
	}
	var total, available int32
	for _, st := range rows {
		total, available = total+st.Total, available+st.Available
		p.Backup, p.WrittenOff = p.Backup+st.Backup, p.WrittenOff+st.WrittenOff
		p.Rev, p.Version = max(p.Rev, st.Rev+1), p.Version+st.Version
	}
	all, free := total, available
	for n := range p.Shards {
		i, k := int32(n), int32(shards) //nolint:gosec // at most stock.MostShards
		p.Shards[n] = int16(i)          //nolint:gosec // as above
		part := func(of int32) int32 {
			return int32((int64(of)*int64(i+1))/int64(k) - (int64(of)*int64(i))/int64(k)) //nolint:gosec // no more than of
		}
		p.Availables[n] = part(free)
		p.Totals[n] = p.Availables[n] + int32(live[int16(i)]) //nolint:gosec // a part of total
		if rows[0].Unlimited {                                // what is available may be below zero, and a total may not
			p.Totals[n] = part(all)
			p.Availables[n] = p.Totals[n] - int32(live[int16(i)]) //nolint:gosec // as above
		}
		total, available = total-p.Totals[n], available-p.Availables[n]
	}
	// What is left is the backup and what is written off, and any difference between the books, which stays one.
	p.Totals[0], p.Availables[0] = p.Totals[0]+total, p.Availables[0]+available
	if err := q.PutShards(ctx, p); err != nil {
		return fmt.Errorf("inventory: load item %d: spread its units: %w", item, err)
	}
	if err := q.PutRetaken(ctx, moved); err != nil {
		return fmt.Errorf("inventory: load item %d: move orders taken up again: %w", item, err)
	}
	return nil
}
