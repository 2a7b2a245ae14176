// Package compare brings Redis to what the orders in Postgres prove, names what they do not prove, and ends what an
// item has in Redis after its sale.
package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"stampede/inventory/books"
	"stampede/inventory/decide"
	"stampede/inventory/keep"
	"stampede/inventory/ledger"
	"stampede/inventory/load"
	"stampede/inventory/lua"
	"stampede/inventory/stock"
	"stampede/order/orderevent"
	"stampede/platform/base/app"
	"stampede/platform/base/ids"
)

// retakes brings to Redis what was taken up again. Numbers that are there already change nothing.
func (c *comparison) retakes(ctx context.Context) error {
	rows, err := c.s.ledger.Retakes(ctx, c.s.DB, c.item.ID)
	if err != nil {
		return err
	}
	var hints []keep.Hint
	for _, r := range rows {
		if r.Shard == c.item.Shard {
			hints = append(hints, keep.Hint{No: r.OrderNo, User: r.UserID, Epoch: c.epoch, Status: keep.StatusRetaken, Quantity: r.Quantity})
		}
	}
	c.atRest = false
	return c.apply(ctx, hints)
}

// Service compares items in Redis with their orders.
type Service struct {
	*stock.Store
	ledger      *ledger.Service
	decide      *decide.Service
	keep        *keep.Service
	load        *load.Service
	books       *books.Service
	reconciling sync.Mutex // one Reconcile at a time: it reads whole items
	Compared    sync.Map   // stock.Item → fingerprint of items at rest that a comparison found right
}

// seen is what comparisons of an item know already.
type seen struct {
	epoch int64
	loads int64     // of the items that share its list of buyers, see changes
	at    time.Time // the last one began, which had every change until then
	whole time.Time // the last one began that looked at every holder
}

// New returns the service.
func New(s *stock.Store, rows *ledger.Service, d *decide.Service, k *keep.Service, l *load.Service, b *books.Service) *Service {
	return &Service{Store: s, ledger: rows, decide: d, keep: k, load: l, books: b}
}

// restsFor is how many times as long as a chunk took a walk in the background rests after it: it may take a fifth of
// a core's time from a sale.
const restsFor = 4

// suspectsAtMost bounds the marks and holds of one comparison that nothing explains. More are an incident, and the
// first ones show it.
const suspectsAtMost = 100

// changes are the users whose orders changed lately, by item.
type changes struct {
	users map[int64][]int64
	from  time.Time // none since then is missing
	until time.Time
	whole time.Duration // how often every holder is looked at
	// loads are the sums of the epochs of each activity's items: the Load of one may have made the list of the
	// activity's buyers anew, in which the others' are missing then.
	loads map[int64]int64
	seen  *sync.Map // stock.Item → seen
}

// part returns the users of an item whose orders changed since its last comparison, or false if every holder has to be
// looked at.
func (c *changes) part(item stock.Item, epoch int64) (users []int64, ok bool) {
	if c == nil {
		return nil, false
	}
	v, _ := c.seen.Load(item)
	last, ok := v.(seen)
	if !ok || last.epoch != epoch || item.PerActivity && last.loads != c.loads[item.ActivityID] || last.at.Before(c.from) || c.until.Sub(last.whole) > c.whole {
		return nil, false
	}
	return c.users[item.ID], true
}

// note records a comparison that did not fail.
func (c *changes) note(item stock.Item, epoch int64, part bool) {
	if c == nil {
		return
	}
	now := seen{epoch: epoch, loads: c.loads[item.ActivityID], at: c.until, whole: c.until}
	if part {
		v, _ := c.seen.Load(item)
		now.whole = v.(seen).whole //nolint:errcheck // part has found it
	}
	c.seen.Store(item, now)
}

// comparison is one walk over an item's keys in Redis, in chunks, beside the orders in Postgres. It applies what
// Postgres says has ended, by the scripts of the keepers, which may be repeated at any time; it only reports what
// needs a decision.
type comparison struct {
	s        *Service
	item     stock.Item
	epoch    int64
	rests    int // times that a chunk took, after it
	repaired int
	atRest   bool // no mark or hold can still change without the state or the stock row changing
	suspects []suspect
	early    []keep.Hint // ends that Redis did not have; it may be about to learn of them
	found    []books.Finding
}

// suspect is a mark or an open hold that nothing explains. It is examined again after a pause.
type suspect struct {
	no     ids.ID
	user   int64
	marked bool
}

// CompareOrders brings an item in Redis to what Postgres says about its numbers, and returns how many it repaired and
// what it cannot repair. An item that does not decide is left to its Load. It reads a chunk at a time, so that
// neither Redis nor this process notices the size of the item, and rests for so many times as long as the chunk took.
func (s *Service) CompareOrders(ctx context.Context, item stock.Item, rests int) (repaired int, found []books.Finding, err error) {
	return s.compareOrders(ctx, item, rests, nil)
}

// compareOrders is CompareOrders for every holder, or only for those whose orders have changed since the comparison
// before.
func (s *Service) compareOrders(ctx context.Context, item stock.Item, rests int, changed *changes) (repaired int, found []books.Finding, err error) {
	// Redis first: a Load and a change commit in Postgres before Redis has them.
	st, ok, err := s.State(ctx, item)
	if err != nil || !ok || !st.Ready() {
		return 0, nil, err
	}
	rows, err := stock.OfItem(ctx, s.DB, item.ID)
	if err != nil {
		return 0, nil, err
	}
	at := slices.IndexFunc(rows, func(r stock.Row) bool { return r.Shard == item.Shard })
	if at < 0 || rows[at].Epoch > st.Epoch {
		return 0, nil, nil // deleted, or to be loaded
	}
	if stock.Withdrawn(rows[at], st) > 0 {
		mended, err := s.ledger.Mend(ctx, item)
		if err != nil {
			return 0, nil, err
		}
		if mended {
			repaired++
		}
	}
	now := books.Fingerprint{Version: rows[at].Version, State: st}
	// The buyers of an activity may be lost while nothing of the item changes.
	if last, ok := s.Compared.Load(item); ok && last == now && !item.PerActivity {
		return 0, nil, nil
	}
	c := &comparison{s: s, item: item, epoch: st.Epoch, rests: rests, atRest: repaired == 0, repaired: repaired}
	if st.Retaken != int64(rows[at].Retaken) {
		if err := c.retakes(ctx); err != nil {
			return c.repaired, nil, err
		}
	}
	users, part := changed.part(item, st.Epoch)
	if err := c.walk(ctx, users, !part); err != nil {
		return c.repaired, nil, err
	}
	changed.note(item, st.Epoch, part)
	after, ok, err := s.State(ctx, item)
	switch {
	case err != nil:
		return c.repaired, nil, err
	case !ok || !after.Ready() || after.Epoch != st.Epoch:
		return c.repaired, nil, nil // a Load has replaced what was read
	case !part && c.atRest && c.repaired == 0 && len(c.found) == 0 && after == st:
		s.Compared.Store(item, now)
	}
	return c.repaired, c.found, nil
}

// walk compares every holder, or only some users, and every grant that waits for its order.
func (c *comparison) walk(ctx context.Context, some []int64, whole bool) error {
	if whole {
		if err := c.scan(ctx, c.item.UsersKey(c.epoch), c.users); err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk(some, lua.Chunk) {
		if err := c.some(ctx, chunk); err != nil {
			return err
		}
	}
	if err := c.scan(ctx, c.item.HoldsKey(c.epoch), c.holds); err != nil {
		return err
	}
	if whole && c.item.PerActivity {
		if err := c.scan(ctx, c.item.BuyersKey(), c.buyers); err != nil {
			return err
		}
	}
	if len(c.suspects)+len(c.early) == 0 {
		return nil
	}
	if err := app.Sleep(ctx, c.s.Recheck); err != nil {
		return err
	}
	return errors.Join(c.applyMissed(ctx), c.examine(ctx))
}

// applyMissed applies those of the early ends that no event has brought to Redis since: in a healthy sale a payment
// is in Postgres for a moment before its keeper has it.
func (c *comparison) applyMissed(ctx context.Context) error {
	if len(c.early) == 0 {
		return nil
	}
	users := make([]string, len(c.early))
	for i, h := range c.early {
		users[i] = strconv.FormatInt(h.User, 10)
	}
	marks, err := c.s.Redis.HMGet(ctx, c.item.UsersKey(c.epoch), users...).Result()
	if err != nil {
		return fmt.Errorf("inventory: read holders of item %d: %w", c.item.ID, err)
	}
	var missed []keep.Hint
	for i, h := range c.early {
		text, _ := marks[i].(string) // nil: the hold has ended
		if m, err := stock.ParseMark(text); err == nil && m.No == h.No && !m.Closed && (h.Status != orderevent.StatusPaid || !m.Paid) {
			missed = append(missed, h)
		}
	}
	return c.apply(ctx, missed)
}

// scan walks one hash and rests after each chunk.
func (c *comparison) scan(ctx context.Context, key string, each func(ctx context.Context, pairs []string) error) error {
	return c.s.ScanChunks(ctx, key, func(ctx context.Context, pairs []string) error {
		began := time.Now()
		if err := each(ctx, pairs); err != nil {
			return err
		}
		return app.Sleep(ctx, time.Duration(c.rests)*time.Since(began))
	})
}

// some compares what some users have in Redis.
func (c *comparison) some(ctx context.Context, users []int64) error {
	fields := make([]string, len(users))
	for i, u := range users {
		fields[i] = strconv.FormatInt(u, 10)
	}
	marks, err := c.s.Redis.HMGet(ctx, c.item.UsersKey(c.epoch), fields...).Result()
	if err != nil {
		return fmt.Errorf("inventory: read holders of item %d: %w", c.item.ID, err)
	}
	pairs := make([]string, 0, 2*len(users))
	for i, m := range marks {
		if text, marked := m.(string); marked {
			pairs = append(pairs, fields[i], text)
		}
	}
	if err := c.users(ctx, pairs); err != nil || !c.item.PerActivity {
		return err
	}
	return c.align(ctx, fields) // those too that are no holders any more
}

// users compares a chunk of the holders.
func (c *comparison) users(ctx context.Context, pairs []string) error {
	marks := make(map[int64]stock.Mark, len(pairs)/2)
	fields := make([]string, 0, len(pairs)/2)
	nos := make([]ids.ID, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		user, err := strconv.ParseInt(pairs[i], 10, 64)
		if err != nil {
			return fmt.Errorf("inventory: holder %q of item %d: %w", pairs[i], c.item.ID, err)
		}
		m, err := stock.ParseMark(pairs[i+1])
		if err != nil {
			return err
		}
		fields = append(fields, pairs[i])
		if !m.Closed {
			marks[user], nos = m, append(nos, m.No)
		}
	}
	status, err := c.s.Statuses(ctx, c.item.ID, nos, c.s.UnitsReturnWithin)
	if err != nil {
		return err
	}
	var hints []keep.Hint
	var unknown []suspect
	for user, m := range marks {
		is := status[m.No]
		c.atRest = c.atRest && m.Paid
		switch {
		case is == "":
			unknown = append(unknown, suspect{no: m.No, user: user})
		case is == stock.StatusReturning:
			c.atRest = false
		case stock.Ended(is):
			hints = append(hints, keep.Hint{No: m.No, User: user, Epoch: c.epoch, Status: is})
		case is != orderevent.StatusPending && !m.Paid:
			hints = append(hints, keep.Hint{No: m.No, User: user, Epoch: c.epoch, Status: orderevent.StatusPaid})
		case is == orderevent.StatusPending && m.Paid:
			c.found = append(c.found, books.AboutOrder(c.item.ID, m.No, "paid", "Redis counts it as paid, Postgres does not."))
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
	holds := make([]stock.StaleHold, len(pairs)/2)
	user := make(map[ids.ID]int64, len(holds))
	for i := range holds {
		h, err := stock.ParseHold(c.epoch, pairs[2*i], pairs[2*i+1])
		if err != nil {
			return err
		}
		holds[i], user[h.No] = h, h.User
	}
	c.atRest = c.atRest && len(holds) == 0
	open, status, err := c.s.decide.CloseWritten(ctx, c.item, holds)
	if err != nil {
		return err
	}
	var hints []keep.Hint
	for no, is := range status {
		if stock.Ended(is) {
			hints = append(hints, keep.Hint{No: no, User: user[no], Epoch: c.epoch, Status: is})
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
		if _, _, is, err := stock.ParseBuyer(pairs[i+1], c.item.ID); err != nil {
			return err
		} else if is {
			ours = append(ours, pairs[i])
		}
	}
	return c.align(ctx, ours)
}

// align brings the activity's entries of some users in line with the item's marks. Entries of other items stay.
func (c *comparison) align(ctx context.Context, users []string) error {
	keys := []string{c.item.StateKey(), c.item.UsersKey(c.epoch), c.item.BuyersKey()}
	for chunk := range slices.Chunk(users, lua.Chunk) {
		args := []any{c.item.ID, c.epoch, len(chunk)}
		for _, u := range chunk {
			args = append(args, u)
		}
		r, err := lua.Buyers.Call(ctx, c.s.Redis, 2, keys, args...)
		if err != nil {
			return err
		}
		c.repaired += int(r.Int(1))
	}
	return nil
}

// apply brings numbers to their ends in Redis.
func (c *comparison) apply(ctx context.Context, hints []keep.Hint) error {
	if len(hints) == 0 {
		return nil
	}
	if _, err := c.s.keep.ApplyHints(ctx, c.item, hints); err != nil {
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

// odd returns those that are marked without waiting for their order, or wait for it without being marked.
func (c *comparison) odd(ctx context.Context, numbers []suspect) ([]suspect, error) {
	if len(numbers) == 0 {
		return nil, nil
	}
	users, nos := make([]string, len(numbers)), make([]string, len(numbers))
	for i, x := range numbers {
		users[i], nos[i] = strconv.FormatInt(x.user, 10), x.no.String()
	}
	pipe := c.s.Redis.Pipeline()
	marks := pipe.HMGet(ctx, c.item.UsersKey(c.epoch), users...)
	open := pipe.HMGet(ctx, c.item.HoldsKey(c.epoch), nos...)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("inventory: read holders of item %d: %w", c.item.ID, err)
	}
	var odd []suspect
	for i, x := range numbers {
		value, _ := marks.Val()[i].(string)
		x.marked = strings.HasPrefix(value, nos[i]) && !strings.HasSuffix(value, stock.ClosedSuffix)
		if x.marked != (open.Val()[i] != nil) {
			odd = append(odd, x)
		}
	}
	return odd, nil
}

// examine looks at the suspects again: grants whose order is on its way have it by now, or wait in holds.
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
	status, err := c.s.Books.Statuses(ctx, nos)
	if err != nil {
		return fmt.Errorf("inventory: read orders of item %d: %w", c.item.ID, err)
	}
	for _, x := range odd {
		switch {
		case status[x.no] != "":
		case x.marked:
			c.found = append(c.found, books.AboutOrder(c.item.ID, x.no, "unknown", "user %d holds units in Redis, but there is no such order and none on its way.", x.user))
		default:
			c.found = append(c.found, books.AboutOrder(c.item.ID, x.no, "hold", "Redis waits for the order of user %d, who holds no units under it.", x.user))
		}
	}
	return nil
}
