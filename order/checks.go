package order

import (
	"context"
	"fmt"
	"strconv"

	"stampede/inventory"
	"stampede/order/internal/orderdb"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
	"stampede/platform/watch/proof"
)

// violationLimit is how many violations of one kind a check lists: enough to
// see the pattern, few enough to read.
const violationLimit = 100

// Checks are the invariants that this module can prove from what is stored.
// CheckClientLog adds those that need a client's log.
func (s *Service) Checks() []proof.Check {
	checks := []proof.Check{
		{ID: "I3", Name: "one live order per user and item, within the limit", Run: s.checkOnePerUser},
		{ID: "I7", Name: "every queued number reaches an end", Run: s.checkEnds},
		{ID: "I7", Name: "no grants are given up", Run: s.checkGivenUp},
		{ID: "I7", Name: "every committed event is sent", Run: s.checkSent},
		{ID: "I9", Name: "no shopper is shown an order that is not committed", Run: s.checkCache},
		s.coupons.Check(),
	}
	if s.deps.Bus != nil { // else only the server knows; verify asks it
		checks = append(checks, proof.Check{ID: "I7", Name: "grants are being written", Run: func(ctx context.Context) ([]proof.Violation, error) {
			return proof.Flow(ctx, "grants", proof.Recheck, s.grants)
		}})
	}
	return checks
}

// checkOnePerUser queries the rows themselves for what the unique indexes
// forbid: only a missing or broken index lets a violation through, and this
// finds it. It also compares with rules that only Redis enforces: the limit, and
// one purchase even after a close. Neither can change once an item is on sale, so
// the stock row has the rule of every order.
func (s *Service) checkOnePerUser(ctx context.Context) ([]proof.Violation, error) {
	q := orderdb.New(s.deps.DB)
	var violations []proof.Violation
	items, err := q.UsersWithSeveralLiveOrders(ctx, violationLimit)
	if err != nil {
		return nil, fmt.Errorf("order: find users with several live orders: %w", err)
	}
	for _, r := range items {
		violations = append(violations, proof.Violation{
			Subject: inventory.ItemSubject(r.ItemID), Detail: fmt.Sprintf("User %d has %d live orders for it.", r.UserID, r.Live),
		})
	}
	activities, err := q.UsersWithSeveralItems(ctx, violationLimit)
	if err != nil {
		return nil, fmt.Errorf("order: find users with several items of an activity: %w", err)
	}
	for _, r := range activities {
		violations = append(violations, proof.Violation{
			Subject: "activity " + httpx.FormatID(r.ActivityID),
			Detail:  fmt.Sprintf("User %d has %d live orders in it; its rule allows one item.", r.UserID, r.Live),
		})
	}
	again, err := q.UsersWhoBoughtAgain(ctx, violationLimit)
	if err != nil {
		return nil, fmt.Errorf("order: find users who bought again: %w", err)
	}
	for _, r := range again {
		violations = append(violations, proof.Violation{
			Subject: inventory.ItemSubject(r.ItemID),
			Detail:  fmt.Sprintf("User %d has order %s, placed after the closing of an order that still counts as bought.", r.UserID, r.OrderNo),
		})
	}
	largest, err := q.LargestLiveQuantities(ctx)
	if err != nil {
		return nil, fmt.Errorf("order: read the largest quantities: %w", err)
	}
	stock, err := q.ItemsWithStock(ctx)
	if err != nil {
		return nil, fmt.Errorf("order: read the items' limits: %w", err)
	}
	limits := make(map[int64]int32, len(stock))
	for _, r := range stock {
		limits[r.ItemID] = r.UserLimit
	}
	for _, r := range largest {
		if limit, ok := limits[r.ItemID]; ok && r.Quantity > limit {
			violations = append(violations, proof.Violation{
				Subject: inventory.ItemSubject(r.ItemID), Detail: fmt.Sprintf("A live order has %d units; a user may have %d.", r.Quantity, limit),
			})
		}
	}
	return violations, nil
}

// checkEnds finds granted numbers that reach no end: a hold in Redis that has no
// order row within StuckAfter, nor at the second check.
func (s *Service) checkEnds(ctx context.Context) ([]proof.Violation, error) {
	found, err := proof.Lasting(ctx, proof.Recheck, 1, proof.BySubject, s.stuckHolds)
	return found[:min(len(found), violationLimit)], err
}

// grants returns how many messages wait on GRANTS and how many were ever
// processed.
func (s *Service) grants(ctx context.Context) (backlog, done uint64, err error) {
	queue, err := s.deps.Grants.State(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("order: read the backlog of grants: %w", err)
	}
	return queue.Messages, queue.Handled(), nil
}

// stuckHolds returns the open holds older than StuckAfter that have no order
// row.
func (s *Service) stuckHolds(ctx context.Context) ([]proof.Violation, error) {
	items, err := orderdb.New(s.deps.DB).ItemsWithStock(ctx)
	if err != nil {
		return nil, fmt.Errorf("order: list items: %w", err)
	}
	stuck := make(map[ids.ID]string)
	for _, r := range items {
		item := inventory.Item{ID: r.ItemID, ActivityID: r.ActivityID, Shard: r.Shard, PerActivity: r.PerActivity}
		holds, err := s.deps.Stock.StaleHolds(ctx, item, s.cfg.StuckAfter, violationLimit)
		if err != nil {
			return nil, fmt.Errorf("order: list old holds of item %d: %w", r.ItemID, err)
		}
		for _, h := range holds {
			stuck[h.No] = fmt.Sprintf("User %d holds %d units of item %d for longer than %s and has neither an order nor a refusal.",
				h.User, h.Quantity, r.ItemID, s.cfg.StuckAfter)
		}
	}
	nos := make([]ids.ID, 0, len(stuck))
	for no := range stuck {
		nos = append(nos, no)
	}
	rows, err := s.Statuses(ctx, nos)
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
func (s *Service) checkCache(ctx context.Context) ([]proof.Violation, error) {
	first, err := s.compareCache(ctx, nil)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	if err := proof.Pause(ctx); err != nil {
		return nil, err
	}
	suspects := make([]ids.ID, 0, len(first))
	for no := range first {
		suspects = append(suspects, no)
	}
	again, err := s.compareCache(ctx, suspects)
	if err != nil {
		return nil, err
	}
	violations := make([]proof.Violation, 0, len(again))
	for no, detail := range again {
		violations = append(violations, proof.Violation{Subject: "order " + no.String(), Detail: detail})
	}
	return violations, nil
}

// compareCache returns what is wrong with cache entries: of the given numbers,
// or of a sample of all when only is nil. It reads the cache before Postgres,
// so that an order written in between is not a suspect.
func (s *Service) compareCache(ctx context.Context, only []ids.ID) (map[ids.ID]string, error) {
	entries, err := s.cache.sample(ctx, only)
	if err != nil {
		return nil, err
	}
	wrong := make(map[ids.ID]string)
	for start := 0; start < len(entries); start += statusLimit {
		part := entries[start:min(start+statusLimit, len(entries))]
		nos := make([]ids.ID, len(part))
		for i := range part {
			nos[i] = part[i].No
		}
		have, err := table.Many(ctx, s.deps.DB, nos)
		if err != nil {
			return nil, err
		}
		for i := range part {
			if detail := misleads(part[i], have); detail != "" && len(wrong) < violationLimit {
				wrong[part[i].No] = detail
			}
		}
	}
	return wrong, nil
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
