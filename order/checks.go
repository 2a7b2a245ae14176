package order

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/inventory"
	"stampede/order/coupon"
	"stampede/order/internal/orderdb"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/outbox"
	"stampede/platform/watch/deadletters"
	"stampede/platform/watch/proof"
)

// checker proves the module's invariants from what is stored.
type checker struct {
	Reader
	core
	coupons *coupon.Service
}

// violationLimit is how many violations of one kind a check lists: enough to
// see the pattern, few enough to read.
const violationLimit = 100

// Checks are the invariants that this module can prove from what is stored.
// CheckClientLog adds those that need a client's log.
func (c *checker) Checks() []proof.Check {
	checks := []proof.Check{
		{ID: "I3", Name: "one live order per user and item, within the limit", Run: c.checkOnePerUser},
		{ID: "I7", Name: "every queued number reaches an end", Run: c.checkEnds},
		{ID: "I7", Name: "no grants are given up", Run: c.checkGivenUp},
		{ID: "I7", Name: "every committed event is sent", Run: c.checkSent},
		{ID: "I9", Name: "no shopper is shown an order that is not committed", Run: c.checkCache},
		c.coupons.Check(),
	}
	if c.deps.Bus != nil { // else only the server knows; verify asks it
		checks = append(checks, proof.Check{ID: "I7", Name: "grants are being written", Run: func(ctx context.Context) ([]proof.Violation, error) {
			return proof.Flow(ctx, "grants", proof.Recheck, c.grants)
		}})
	}
	return checks
}

// checkOnePerUser queries the rows themselves for what the unique indexes
// forbid: only a missing or broken index lets a violation through, and this
// finds it. It also compares with rules that only Redis enforces: the limit, and
// one purchase even after a close. Neither can change once an item is on sale, so
// the stock row has the rule of every order.
func (c *checker) checkOnePerUser(ctx context.Context) ([]proof.Violation, error) {
	q := orderdb.New(c.deps.DB)
	var f proof.Findings
	proof.Find(&f, func(r orderdb.UsersWithSeveralLiveOrdersRow) (string, string) {
		return inventory.ItemSubject(r.ItemID), fmt.Sprintf("User %d has %d live orders for it.", r.UserID, r.Live)
	})(q.UsersWithSeveralLiveOrders(ctx, violationLimit))
	proof.Find(&f, func(r orderdb.UsersWithSeveralItemsRow) (string, string) {
		return "activity " + httpx.FormatID(r.ActivityID), fmt.Sprintf("User %d has %d live orders in it; its rule allows one item.", r.UserID, r.Live)
	})(q.UsersWithSeveralItems(ctx, violationLimit))
	proof.Find(&f, func(r orderdb.UsersWhoBoughtAgainRow) (string, string) {
		return inventory.ItemSubject(r.ItemID), fmt.Sprintf("User %d has order %s, placed after the closing of an order that still counts as bought.", r.UserID, r.OrderNo)
	})(q.UsersWhoBoughtAgain(ctx, violationLimit))
	proof.Find(&f, func(r orderdb.ItemsAboveLimitRow) (string, string) {
		return inventory.ItemSubject(r.ItemID), fmt.Sprintf("A live order has %d units; a user may have %d.", r.Quantity, r.UserLimit)
	})(q.ItemsAboveLimit(ctx, violationLimit))
	return f.All("order: check")
}

// checkEnds finds granted numbers that reach no end: a hold in Redis that has no
// order row within StuckAfter, nor at the second check.
func (c *checker) checkEnds(ctx context.Context) ([]proof.Violation, error) {
	found, err := proof.Lasting(ctx, proof.Recheck, 1, proof.BySubject, c.stuckHolds)
	return found[:min(len(found), violationLimit)], err
}

// grants returns how many messages wait on GRANTS and how many were ever
// processed.
func (c *checker) grants(ctx context.Context) (backlog, done uint64, err error) {
	queue, err := c.deps.Grants.State(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("order: read the backlog of grants: %w", err)
	}
	return queue.Messages, queue.Handled(), nil
}

// stuckHolds returns the open holds older than StuckAfter that have no order
// row.
func (c *checker) stuckHolds(ctx context.Context) ([]proof.Violation, error) {
	items, err := orderdb.New(c.deps.DB).ItemsWithStock(ctx)
	if err != nil {
		return nil, fmt.Errorf("order: list items: %w", err)
	}
	stuck := make(map[ids.ID]string)
	for _, r := range items {
		item := inventory.Item{ID: r.ItemID, ActivityID: r.ActivityID, Shard: r.Shard, PerActivity: r.PerActivity}
		holds, err := c.deps.Stock.StaleHolds(ctx, item, c.cfg.StuckAfter, violationLimit)
		if err != nil {
			return nil, fmt.Errorf("order: list old holds of item %d: %w", r.ItemID, err)
		}
		for _, h := range holds {
			stuck[h.No] = fmt.Sprintf("User %d holds %d units of item %d for longer than %s and has neither an order nor a refusal.",
				h.User, h.Quantity, r.ItemID, c.cfg.StuckAfter)
		}
	}
	rows, err := c.Statuses(ctx, slices.Collect(maps.Keys(stuck)))
	if err != nil {
		return nil, err
	}
	for no := range rows {
		delete(stuck, no) // it has ended; Redis has not been updated yet
	}
	var found []proof.Violation
	for no, detail := range stuck {
		found = append(found, proof.Violation{Subject: "number " + no.String(), Detail: detail})
	}
	return found, nil
}

// checkCache compares the answers to polls with what is committed. An entry
// without a row, or newer than its row, shows a shopper an order that does not
// exist. An entry that stays older than its row is reported too: every change
// has to be visible within a second.
func (c *checker) checkCache(ctx context.Context) ([]proof.Violation, error) {
	var suspects []ids.ID // nil at first: a sample of all
	return proof.Lasting(ctx, proof.Recheck, 1, proof.BySubject, func(ctx context.Context) (found []proof.Violation, err error) {
		found, suspects, err = c.compareCache(ctx, suspects)
		return found, err
	})
}

// compareCache returns what is wrong with cache entries, and which they are: of the given
// numbers, or of a sample of all when only is nil. It reads the cache before Postgres,
// so that an order written in between is not a suspect.
func (c *checker) compareCache(ctx context.Context, only []ids.ID) (found []proof.Violation, wrong []ids.ID, err error) {
	entries, err := c.cache.sample(ctx, only)
	if err != nil {
		return nil, nil, err
	}
	for part := range slices.Chunk(entries, statusLimit) {
		nos := make([]ids.ID, len(part))
		for i := range part {
			nos[i] = part[i].No
		}
		have, err := table.Many(ctx, c.deps.DB, nos)
		if err != nil {
			return nil, nil, err
		}
		for i := range part {
			if detail := misleads(part[i], have); detail != "" && len(wrong) < violationLimit && !slices.Contains(wrong, nos[i]) {
				found, wrong = append(found, proof.Violation{Subject: "order " + nos[i].String(), Detail: detail}), append(wrong, nos[i])
			}
		}
	}
	return found, wrong, nil
}

// misleads says how a cached order differs from its row, "" when it does not.
func misleads(cached orderevent.Order, have map[ids.ID]orderevent.Order) string {
	row, ok := have[cached.No]
	switch {
	case !ok:
		return "The cache says " + strconv.Quote(cached.Status) + " and Postgres has no such order."
	case cached.Version > row.Version:
		return fmt.Sprintf("The cache says %q (version %d), Postgres %q (version %d).", cached.Status, cached.Version, row.Status, row.Version)
	case cached.Version < row.Version:
		return fmt.Sprintf("The cache still says %q (version %d), Postgres %q (version %d).", cached.Status, cached.Version, row.Status, row.Version)
	case cached.Status != row.Status || cached.UserID != row.UserID || cached.ItemID != row.ItemID || cached.Quantity != row.Quantity:
		return fmt.Sprintf("The cache and Postgres disagree within version %d: %q, %q.", row.Version, cached.Status, row.Status)
	default:
		return ""
	}
}

// unsentAfter is the age from which on an event counts as late: it is sent within milliseconds, or seconds after a
// restart of NATS or of the server.
const unsentAfter = 10 * time.Second

// checkGivenUp finds messages of grants that the writer gave up on. Their numbers were answered 202, and have no end
// until an operator redrives the message.
func (c *checker) checkGivenUp(ctx context.Context) ([]proof.Violation, error) {
	var f proof.Findings
	proof.Find(&f, func(l deadletters.Letter) (string, string) {
		return "dead letter " + l.ID.String(), fmt.Sprintf("A message of %s was given up after %d attempts: %s", l.Subject, l.Attempts, l.Error)
	})(deadletters.List(ctx, c.deps.DB, deadletters.Filter{Consumer: writerName, Limit: violationLimit}))
	return f.All("order: list grants that were given up")
}

// checkSent finds events that the bus refuses, whether they are still tried or have failed, and an outbox whose oldest
// event is not sent because the relay stands still. The outbox is shared by all modules; most of its events are about
// orders.
func (c *checker) checkSent(ctx context.Context) ([]proof.Violation, error) {
	var f proof.Findings
	proof.Find(&f, func(e outbox.Message) (string, string) {
		return "event " + e.ID.String(), fmt.Sprintf("%s was refused %d times and is %s: %s", e.Subject, e.Attempts, e.Status, e.Error)
	})(outbox.Refused(ctx, c.deps.DB, violationLimit))
	first, age, err := outbox.Oldest(ctx, c.deps.DB)
	f.Add(nil, err)
	if age < unsentAfter {
		return f.All("order: check the outbox")
	}
	if err := proof.Pause(ctx); err != nil {
		return nil, err
	}
	subject, later, err := outbox.Oldest(ctx, c.deps.DB)
	f.Add(nil, err)
	// The relay has sent the first one if the oldest is younger now than that one would be.
	if subject == first && later >= age+proof.Recheck {
		f.Add([]proof.Violation{{
			Subject: "outbox", Detail: fmt.Sprintf("The oldest event, %s, was committed %.0f s ago and is not sent.", subject, later.Seconds()),
		}}, nil)
	}
	return f.All("order: check the outbox")
}

// sampleLimit bounds how many entries a check reads; a systematic mistake would
// show among twenty thousand orders.
const sampleLimit = 20_000

// sample returns cached orders: those of the given numbers, or the first that a
// scan meets if only is nil. Entries that are not orders are left out.
func (c *cache) sample(ctx context.Context, only []ids.ID) ([]orderevent.Order, error) {
	if only == nil {
		return c.scan(ctx)
	}
	var orders []orderevent.Order
	for part := range slices.Chunk(only, storeLimit) {
		found, err := c.read(ctx, part)
		if err != nil {
			return nil, fmt.Errorf("order: read cached orders: %w", err)
		}
		orders = append(orders, found.orders...)
	}
	return orders, nil
}

// scan reads at most sampleLimit orders of the cache, on every node of a cluster.
func (c *cache) scan(ctx context.Context) ([]orderevent.Order, error) {
	var mu sync.Mutex // a cluster's nodes are scanned concurrently
	var orders []orderevent.Order
	node := func(ctx context.Context, rdb redis.Cmdable) error {
		hashes := rdb.Scan(ctx, 0, cachePrefix+"*", 1000).Iterator()
		for hashes.Next(ctx) {
			entries := rdb.HScan(ctx, hashes.Val(), 0, "", 1000).Iterator()
			for field := true; entries.Next(ctx); field = !field {
				if field {
					continue
				}
				o, err := readCached([]byte(entries.Val()))
				if err != nil {
					continue
				}
				mu.Lock()
				orders = append(orders, o)
				full := len(orders) >= sampleLimit
				mu.Unlock()
				if full {
					return nil
				}
			}
			if err := entries.Err(); err != nil {
				return err
			}
		}
		return hashes.Err()
	}
	var err error
	if cluster, ok := c.rdb.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, rdb *redis.Client) error { return node(ctx, rdb) })
	} else {
		err = node(ctx, c.rdb)
	}
	if err != nil {
		return nil, fmt.Errorf("order: scan the cache: %w", err)
	}
	return orders, nil
}
