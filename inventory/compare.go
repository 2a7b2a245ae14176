package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"stampede/inventory/internal/inventorydb"
	"stampede/order/orderevent"
	"stampede/platform/base/app"
	"stampede/platform/base/ids"
)

// restsFor is how many times as long as a chunk took a walk in the background
// rests after it: it may take a fifth of a core's time from a sale.
const restsFor = 4

// suspectsAtMost bounds the marks and holds of one comparison that nothing
// explains. More are an incident, and the first ones show it.
const suspectsAtMost = 100

// comparison is one walk over an item's keys in Redis, in chunks, beside the
// orders in Postgres. It applies what Postgres says has ended, by the scripts of
// the keepers, which may be repeated at any time; it only reports what needs a
// decision.
type comparison struct {
	s        *Service
	item     Item
	epoch    int64
	rests    int // times that a chunk took, after it
	repaired int
	atRest   bool // no mark or hold can still change without the state or the stock row changing
	suspects []suspect
	early    []hint // ends that Redis did not have; it may be about to learn of them
	found    []finding
}

// suspect is a mark or an open hold that nothing explains. It is examined again
// after a pause.
type suspect struct {
	no     ids.ID
	user   int64
	marked bool
}

// compareOrders brings an item in Redis to what Postgres says about its numbers, and
// returns how many it repaired and what it cannot repair. An item that does not
// decide is left to its Load. It reads a chunk at a time, so that neither Redis
// nor this process notices the size of the item, and rests for so many times as
// long as the chunk took.
func (s *Service) compareOrders(ctx context.Context, item Item, rests int) (repaired int, found []finding, err error) {
	// Redis first: a Load and a change commit in Postgres before Redis has them.
	st, ok, err := s.State(ctx, item)
	if err != nil || !ok || !st.Ready() {
		return 0, nil, err
	}
	rows, err := inventorydb.New(s.deps.DB).StockOfItem(ctx, item.ID)
	if err != nil {
		return 0, nil, fmt.Errorf("inventory: read stock of item %d: %w", item.ID, err)
	}
	at := slices.IndexFunc(rows, func(r inventorydb.InventoryStock) bool { return r.Shard == item.Shard })
	if at < 0 || rows[at].Epoch > st.Epoch {
		return 0, nil, nil // deleted, or to be loaded
	}
	if stock := stockOf(rows[at]); withdrawn(stock, st) > 0 {
		mended, err := s.mend(ctx, item)
		if err != nil {
			return 0, nil, err
		}
		if mended {
			repaired++
		}
	}
	now := fingerprint{version: rows[at].Version, state: st}
	if last, ok := s.compared.Load(item); ok && last == now {
		return 0, nil, nil
	}
	c := &comparison{s: s, item: item, epoch: st.Epoch, rests: rests, atRest: repaired == 0, repaired: repaired}
	if st.Retaken != int64(rows[at].Retaken) {
		if err := c.retakes(ctx); err != nil {
			return c.repaired, nil, err
		}
	}
	if err := c.walk(ctx); err != nil {
		return c.repaired, nil, err
	}
	after, ok, err := s.State(ctx, item)
	switch {
	case err != nil:
		return c.repaired, nil, err
	case !ok || !after.Ready() || after.Epoch != st.Epoch:
		return c.repaired, nil, nil // a Load has replaced what was read
	case c.atRest && c.repaired == 0 && len(c.found) == 0 && after == st:
		s.compared.Store(item, now)
	}
	return c.repaired, c.found, nil
}

func (c *comparison) walk(ctx context.Context) error {
	if err := c.scan(ctx, c.item.usersKey(c.epoch), c.users); err != nil {
		return err
	}
	if err := c.scan(ctx, c.item.holdsKey(c.epoch), c.holds); err != nil {
		return err
	}
	if c.item.PerActivity {
		if err := c.scan(ctx, c.item.buyersKey(), c.buyers); err != nil {
			return err
		}
	}
	if len(c.suspects)+len(c.early) == 0 {
		return nil
	}
	if err := app.Sleep(ctx, c.s.recheck); err != nil {
		return err
	}
	return errors.Join(c.applyMissed(ctx), c.examine(ctx))
}

// applyMissed applies those of the early ends that no event has brought to Redis since:
// in a healthy sale a payment is in Postgres for a moment before its keeper has it.
func (c *comparison) applyMissed(ctx context.Context) error {
	if len(c.early) == 0 {
		return nil
	}
	users := make([]string, len(c.early))
	for i, h := range c.early {
		users[i] = strconv.FormatInt(h.user, 10)
	}
	marks, err := c.s.deps.Redis.HMGet(ctx, c.item.usersKey(c.epoch), users...).Result()
	if err != nil {
		return fmt.Errorf("inventory: read holders of item %d: %w", c.item.ID, err)
	}
	var missed []hint
	for i, h := range c.early {
		text, _ := marks[i].(string) // nil: the hold has ended
		if m, err := parseMark(text); err == nil && m.no == h.no && !m.closed && (h.status != orderevent.StatusPaid || !m.paid) {
			missed = append(missed, h)
		}
	}
	return c.apply(ctx, missed)
}

// scan walks one hash and rests after each chunk.
func (c *comparison) scan(ctx context.Context, key string, each func(ctx context.Context, pairs []string) error) error {
	return c.s.scanChunks(ctx, key, func(ctx context.Context, pairs []string) error {
		began := time.Now()
		if err := each(ctx, pairs); err != nil {
			return err
		}
		return app.Sleep(ctx, time.Duration(c.rests)*time.Since(began))
	})
}

// users compares a chunk of the holders.
func (c *comparison) users(ctx context.Context, pairs []string) error {
	marks := make(map[int64]mark, len(pairs)/2)
	fields := make([]string, 0, len(pairs)/2)
	nos := make([]ids.ID, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		user, err := strconv.ParseInt(pairs[i], 10, 64)
		if err != nil {
			return fmt.Errorf("inventory: holder %q of item %d: %w", pairs[i], c.item.ID, err)
		}
		m, err := parseMark(pairs[i+1])
		if err != nil {
			return err
		}
		fields = append(fields, pairs[i])
		if !m.closed {
			marks[user], nos = m, append(nos, m.no)
		}
	}
	status, err := c.s.statuses(ctx, c.item.ID, nos, c.s.cfg.UnitsReturnWithin)
	if err != nil {
		return err
	}
	var hints []hint
	var unknown []suspect
	for user, m := range marks {
		is := status[m.no]
		c.atRest = c.atRest && m.paid
		switch {
		case is == "":
			unknown = append(unknown, suspect{no: m.no, user: user})
		case is == statusReturning:
			c.atRest = false
		case ended(is):
			hints = append(hints, hint{no: m.no, user: user, epoch: c.epoch, status: is})
		case is != orderevent.StatusPending && !m.paid:
			hints = append(hints, hint{no: m.no, user: user, epoch: c.epoch, status: orderevent.StatusPaid})
		case is == orderevent.StatusPending && m.paid:
			c.found = append(c.found, aboutOrder(c.item.ID, m.no, "paid", "Redis counts it as paid, Postgres does not."))
		}
	}
	c.atRest = c.atRest && len(hints) == 0
	wait := min(len(hints), max(0, suspectsAtMost-len(c.early))) // more are a list that was lost
	c.early = append(c.early, hints[:wait]...)
	if err := errors.Join(c.apply(ctx, hints[wait:]), c.suspect(ctx, unknown)); err != nil || !c.item.PerActivity {
		return err
	}
	return c.align(ctx, fields)
}

// holds compares a chunk of the grants that wait for their order row.
func (c *comparison) holds(ctx context.Context, pairs []string) error {
	holds := make([]StaleHold, len(pairs)/2)
	user := make(map[ids.ID]int64, len(holds))
	for i := range holds {
		h, _, err := readHold(c.item, c.epoch, pairs[2*i], pairs[2*i+1])
		if err != nil {
			return err
		}
		holds[i], user[h.No] = h, h.User
	}
	c.atRest = c.atRest && len(holds) == 0
	open, status, err := c.s.CloseWritten(ctx, c.item, holds)
	if err != nil {
		return err
	}
	var hints []hint
	for no, is := range status {
		if ended(is) {
			hints = append(hints, hint{no: no, user: user[no], epoch: c.epoch, status: is})
		}
	}
	unknown := make([]suspect, len(open))
	for i, h := range open {
		unknown[i] = suspect{no: h.No, user: h.User}
	}
	return errors.Join(c.apply(ctx, hints), c.suspect(ctx, unknown))
}

// buyers compares a chunk of the activity's buyers.
func (c *comparison) buyers(ctx context.Context, pairs []string) error {
	var ours []string
	for i := 0; i < len(pairs); i += 2 {
		if _, _, is, err := parseBuyer(pairs[i+1], c.item.ID); err != nil {
			return err
		} else if is {
			ours = append(ours, pairs[i])
		}
	}
	return c.align(ctx, ours)
}

func (c *comparison) align(ctx context.Context, users []string) error {
	changed, err := c.s.alignBuyers(ctx, c.item, c.epoch, users)
	c.repaired += int(changed)
	return err
}

// apply brings numbers to their ends in Redis.
func (c *comparison) apply(ctx context.Context, hints []hint) error {
	if len(hints) == 0 {
		return nil
	}
	if _, err := c.s.applyHints(ctx, c.item, hints); err != nil {
		return err
	}
	c.repaired += len(hints)
	return nil
}

// suspect notes which numbers without an order row are not simply on their way.
func (c *comparison) suspect(ctx context.Context, unknown []suspect) error {
	odd, err := c.odd(ctx, unknown)
	room := max(0, suspectsAtMost-len(c.suspects))
	c.suspects = append(c.suspects, odd[:min(len(odd), room)]...)
	return err
}

// odd returns those that are marked without waiting for their order, or wait for
// it without being marked.
func (c *comparison) odd(ctx context.Context, numbers []suspect) ([]suspect, error) {
	if len(numbers) == 0 {
		return nil, nil
	}
	users, nos := make([]string, len(numbers)), make([]string, len(numbers))
	for i, x := range numbers {
		users[i], nos[i] = strconv.FormatInt(x.user, 10), x.no.String()
	}
	pipe := c.s.deps.Redis.Pipeline()
	marks := pipe.HMGet(ctx, c.item.usersKey(c.epoch), users...)
	open := pipe.HMGet(ctx, c.item.holdsKey(c.epoch), nos...)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("inventory: read holders of item %d: %w", c.item.ID, err)
	}
	var odd []suspect
	for i, x := range numbers {
		value, _ := marks.Val()[i].(string)
		x.marked = strings.HasPrefix(value, nos[i]) && !strings.HasSuffix(value, closedSuffix)
		if x.marked != (open.Val()[i] != nil) {
			odd = append(odd, x)
		}
	}
	return odd, nil
}

// examine looks at the suspects again: grants whose order is on its way have it
// by now, or wait in holds.
func (c *comparison) examine(ctx context.Context) error {
	odd, err := c.odd(ctx, c.suspects)
	if err != nil {
		return err
	}
	nos := make([]ids.ID, len(odd))
	for i, x := range odd {
		nos[i] = x.no
	}
	// After Redis, which learns of a row after its commit.
	status, err := c.s.deps.Books.Statuses(ctx, nos)
	if err != nil {
		return fmt.Errorf("inventory: read orders of item %d: %w", c.item.ID, err)
	}
	for _, x := range odd {
		switch {
		case status[x.no] != "":
		case x.marked:
			c.found = append(c.found, aboutOrder(c.item.ID, x.no, "unknown", "user %d holds units in Redis, but there is no such order and none on its way.", x.user))
		default:
			c.found = append(c.found, aboutOrder(c.item.ID, x.no, "hold", "Redis waits for the order of user %d, who holds no units under it.", x.user))
		}
	}
	return nil
}
