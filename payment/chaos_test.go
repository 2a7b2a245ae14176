package payment

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"stampede/order"
	"stampede/order/orderevent"
	"stampede/payment/provider"
	"stampede/platform/base/ids"
)

// TestCallbacksAtRandom plays a day with every provider on which callbacks are
// duplicated, lost, forged, delayed past their order's closing and delivered in any
// order, at two instances, beside refunds in part and in whole. Afterwards queries and
// the books must have found everything. STAMPEDE_TEST_SEED repeats a run.
func TestCallbacksAtRandom(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
	if text := os.Getenv("STAMPEDE_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("STAMPEDE_TEST_SEED=%d", seed)
	c := &chaos{bundle: setup(t, options{}), rand: rand.New(rand.NewPCG(seed, 0)), seen: map[string]bool{}} //nolint:gosec // a game
	c.callers = callers(t, c.bundle)
	var providers []provider.Provider
	for _, subject := range c.callers {
		providers = append(providers, subject.Provider)
	}
	c.two = []*Service{c.instance(options{}, providers...), c.instance(options{}, providers...)}
	c.door.lose.Store(true)                                                                               // the test delivers
	c.exec(`UPDATE inventory.stock SET backup = 2, available = available - 2 WHERE item_id = $1`, c.item) // for some of those who pay late

	for i := range 6 * len(c.callers) {
		c.order(c.callers[i%len(c.callers)])
	}
	for range 2 {
		c.until("a callback of each payment", func() bool { return len(c.door.callbacks()) >= len(c.callers) })
		c.deliver()
		c.askBack()
		if _, err := c.two[0].refundDue(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.heal()
	c.couponsAgree()
	for _, p := range read[[]string](c.bundle, `SELECT coalesce(array_agg(p.payment_no::text), '{}') FROM payments.payments p
		WHERE p.payment_no = ANY($1) AND p.status <> 'captured'`, c.paid) {
		t.Errorf("payment %s was paid, and we do not know", p)
	}
	if n := read[int](c.bundle, `SELECT total - available - backup - written_off - (SELECT coalesce(sum(quantity), 0) FROM orders.orders o
		WHERE o.item_id = s.item_id AND o.status IN ('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed'))
		FROM inventory.stock s WHERE item_id = $1`, c.item); n != 0 {
		t.Errorf("%d units are not accounted for", n)
	}
}

type chaos struct {
	*bundle
	rand    *rand.Rand
	callers []caller
	two     []*Service
	orders  []ids.ID
	paid    []ids.ID        // payments whose money moved
	seen    map[string]bool // callbacks that were delivered or lost for good
}

// order places an order whose money moves, and may close it before we hear of that.
func (c *chaos) order(subject caller) {
	c.t.Helper()
	no, user := c.one(100)
	c.orders = append(c.orders, no)
	if c.rand.IntN(2) > 0 {
		c.exec(`UPDATE orders.orders SET freight = 8 WHERE order_no = $1`, no)
	}
	if c.rand.IntN(3) == 0 { // at the sandbox bank, whose payment the next one closes
		c.exec(`UPDATE orders.orders SET pay_deadline = clock_timestamp() + interval '2 hours' WHERE order_no = $1`, no) // enough for every provider
		freight := read[int](c.bundle, `SELECT freight FROM orders.orders WHERE order_no = $1`, no)
		c.choose(no, user, c.issued(user, 10), 90+freight)
	}
	c.paid = append(c.paid, c.paidAt(c.two[0], subject, no, user))
	if c.rand.IntN(2) > 0 {
		return
	}
	// As after the bounded wait for a provider that gives no answer: the payment stays open to queries.
	if _, err := c.bundle.orders.Claim(c.t.Context(), no, user); err != nil {
		c.t.Fatal(err)
	}
	if closed, err := c.bundle.orders.CloseClaimed(c.t.Context(), []ids.ID{no}, orderevent.ReasonTimeout); err != nil || len(closed) != 1 {
		c.t.Fatalf("close: %v, %v", closed, err)
	}
}

// deliver hands over what has arrived, in any order: each callback up to three times, or
// never, with forged ones in between.
func (c *chaos) deliver() {
	c.t.Helper()
	type delivery struct {
		to    *Service
		name  string
		cb    recorded
		never provider.Reply // the answer that a forged one must not get
	}
	var all []delivery
	for _, cb := range c.door.callbacks() {
		i := slices.IndexFunc(c.callers, func(s caller) bool {
			_, err := s.Provider.Parse(cb.header, cb.body)
			return err == nil
		})
		key := fmt.Sprint(cb.header, string(cb.body))
		if i < 0 || c.seen[key] {
			continue
		}
		c.seen[key] = true
		subject := c.callers[i]
		name := subject.Provider.Profile().Name
		for range c.rand.IntN(4) {
			all = append(all, delivery{to: c.two[c.rand.IntN(2)], name: name, cb: cb})
		}
		forged := recorded{cb.path, cb.header, slices.Clone(cb.body)}
		forged.body[c.rand.IntN(len(forged.body))] ^= 1 << c.rand.IntN(7)
		if _, err := subject.Provider.Parse(forged.header, forged.body); err != nil {
			all = append(all, delivery{c.two[c.rand.IntN(2)], name, forged, subject.Provider.Answer(nil)})
		}
	}
	c.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var g errgroup.Group
	g.SetLimit(8)
	for _, d := range all {
		g.Go(func() error {
			if got := answered(d.to, d.name, d.cb); d.never.Status != 0 && same(got, d.never) {
				return fmt.Errorf("a forged callback of %s is acknowledged", d.name)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		c.t.Error(err)
	}
}

// askBack asks for refunds of some orders, in part or in whole; those that cannot be
// refunded refuse.
func (c *chaos) askBack() {
	var wg sync.WaitGroup
	for _, no := range c.orders {
		if c.rand.IntN(3) > 0 {
			continue
		}
		amount := []int64{0, 1, 40}[c.rand.IntN(3)]
		wg.Go(func() {
			_, _ = c.two[0].refunds.Request(c.t.Context(), ids.New().String(), order.RefundRequest{OrderNo: no, Amount: allIfZero(amount), Reason: order.RefundByOperator, By: firstOperator})
		})
	}
	wg.Wait()
}

// heal lets the queries find what callbacks did not tell, until nothing is under way.
func (c *chaos) heal() {
	c.t.Helper()
	c.until("everything to end", func() bool {
		c.exec(`UPDATE payments.payments SET next_query = now() WHERE status = 'created'`)
		c.exec(`UPDATE payments.refunds SET next_try = now() WHERE status = 'requested'`)
		for _, svc := range c.two {
			for _, round := range []string{"payments", "refunds"} {
				work := svc.queryDue
				if round == "refunds" {
					work = svc.refundDue
				}
				if _, err := work(c.t.Context()); err != nil {
					c.t.Fatalf("%s: %v", round, err)
				}
			}
		}
		return read[int](c.bundle, `SELECT (SELECT count(*) FROM payments.payments WHERE status = 'created')
			+ (SELECT count(*) FROM payments.refunds WHERE status = 'requested')`) == 0
	})
}
