package inventory

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"stampede/inventory/stock"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/redistest"
	"stampede/platform/workshop/require"
)

// observed is a hook that knows the largest answer of all commands, and calls between before each step of a cursor.
type observed struct {
	largest int // values of one answer
	steps   int
	between func()
}

func (o *observed) around(_ context.Context, cmds []redis.Cmder, next func() error) error {
	if cmds[0].Name() == "hscan" {
		o.steps++
		if o.between != nil {
			o.between()
		}
	}
	defer o.note(cmds)
	return next()
}

func (o *observed) note(cmds []redis.Cmder) {
	for _, cmd := range cmds {
		size := 0
		switch c := cmd.(type) {
		case *redis.ScanCmd:
			page, _ := c.Val()
			size = len(page)
		case *redis.MapStringStringCmd:
			size = 2 * len(c.Val())
		case *redis.SliceCmd:
			size = len(c.Val())
		case *redis.Cmd:
			values, _ := c.Val().([]any)
			size = len(values)
		}
		o.largest = max(o.largest, size)
	}
}

// reader is another process, whose commands are observed.
func (b *bundle) reader() (*Service, *observed) {
	b.t.Helper()
	seen := new(observed)
	client := redis.NewClient(b.rdb.Options())
	client.AddHook(redistest.Around(seen.around))
	b.t.Cleanup(func() { _ = client.Close() })
	s := b.instance()
	s.store.Redis = client
	return s, seen
}

// movement is what happens to an item while it is read: each step has grants in every state, and orders that end and
// return to their users.
type movement struct {
	*bundle
	item     Item
	epoch    int64
	quantity int32
	next     int64 // the next user without an order
	old      []ids.ID
	closed   []orderevent.Order // not released yet
}

func (m *movement) step() {
	m.t.Helper()
	for _, o := range m.closed {
		m.mustBring(o)
		if o.UserID%2 == 0 { // buys again, if the rule allows it
			m.reserve(m.item, m.epoch, one(o.UserID))
		}
	}
	m.closed = m.closed[:0]
	granted := make([]Attempt, 4)
	for i := range granted {
		granted[i] = Attempt{User: m.next, No: ids.NewFor(m.next), Quantity: 1 + int32(m.next)%m.quantity}
		m.next++
	}
	m.reserve(m.item, m.epoch, granted...)
	m.write(m.item, m.epoch, granted[1:]...) // the first one stays in flight
	m.mustBring(m.close(granted[2].No))
	m.mustBring(m.pay(granted[3].No))
	for range min(4, len(m.old)) {
		no := m.old[len(m.old)-1]
		m.old = m.old[:len(m.old)-1]
		m.closed = append(m.closed, m.close(no))
	}
	for range min(2, len(m.old)) {
		m.mustBring(m.pay(m.old[0]))
		m.old = m.old[1:]
	}
}

// Books and checks are exact while grants, payments and returns go on, although no command reads more than a chunk of
// the holders.
func TestLargeItemIsReadByCursorWhileItSells(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		holders int32
		plan    func(*NewStock)
		steps   int // at least, in one read of the holders
	}{
		"20,000 holders":        {20_000, nil, 21},
		"several units":         {3_000, func(n *NewStock) { n.UserLimit = 3 }, 4},
		"one purchase for ever": {3_000, func(n *NewStock) { n.Rebuy = false }, 4},
		"one item per activity": {3_000, func(n *NewStock) { n.PerActivity = true }, 7},
		"without limit":         {3_000, func(n *NewStock) { n.Unlimited = true }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n := onSale(1, c.holders+2000)
			if c.plan != nil {
				c.plan(&n)
			}
			item := b.soldTo(n, c.holders)
			m := &movement{bundle: b, item: item, epoch: b.state(item).Epoch, quantity: n.UserLimit, next: 1e6}
			for no := range b.orders.all {
				m.old = append(m.old, no)
			}
			s, seen := b.reader()
			seen.between = m.step
			read := func(difference int64) {
				t.Helper()
				before := b.orders.liveNumbers()
				seen.steps = 0
				row, ok, err := s.Book(t.Context(), item.ID)
				if err != nil || !ok {
					t.Fatal(ok, err)
				}
				if seen.steps < c.steps {
					t.Errorf("%d steps", seen.steps)
				}
				require.Equal(t, "difference", row.Difference, difference)
				if difference != 0 {
					return // it was read twice
				}
				// What is marked now and was no live order before the read.
				var moving int64
				for _, m := range b.marks(item) {
					if !m.Closed && !before[m.No] {
						moving += int64(m.Quantity)
					}
				}
				require.Equal(t, "moving units", row.InFlight+row.ReleasePending, moving)
			}
			read(0)
			require.Equal(t, "a sale in order", proof.AllOK(proof.Run(t.Context(), s.Checks())), true)
			if n.UserLimit == 1 {
				for _, planted := range []int64{1, -3} {
					b.rdb.HIncrBy(t.Context(), item.StateKey(), "remaining", planted)
					read(-planted)
					b.rdb.HIncrBy(t.Context(), item.StateKey(), "remaining", -planted)
				}
			}
			read(0)
			if most := 3 * stock.ScanCount; seen.largest > most {
				t.Errorf("an answer had %d values, want at most %d", seen.largest, most)
			}
		})
	}
}

// A Load in the middle of a read replaces everything that was read before it.
func TestReadStartsOverAfterLoad(t *testing.T) {
	t.Parallel()
	sale := midSale(t)
	s, seen := sale.reader()
	loads := 0
	seen.between = func() {
		if loads++; loads == 2 {
			sale.load(sale.item)
		}
	}
	row, _, err := s.Book(t.Context(), sale.item.ID)
	require.Equal(t, "book", fmt.Sprint(row.Difference, row.InFlight, row.Held, err), "0 0 6 <nil>")
	require.Equal(t, "steps", seen.steps, 6)
}

// liveNumbers are the numbers of live orders.
func (o *orders) liveNumbers() map[ids.ID]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	nos := make(map[ids.ID]bool, len(o.all))
	for no, r := range o.all {
		nos[no] = live(r.Status)
	}
	return nos
}

// marks reads all marks of an item at once.
func (b *bundle) marks(item Item) (all []stock.Mark) {
	b.t.Helper()
	for user, value := range b.rdb.HGetAll(b.t.Context(), item.UsersKey(b.state(item).Epoch)).Val() {
		if user == stock.WeightField {
			continue
		}
		m, err := stock.ParseMark(value)
		require.NoError(b.t, err)
		all = append(all, m)
	}
	return all
}
