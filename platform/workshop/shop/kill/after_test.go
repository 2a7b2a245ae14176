package kill

import (
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// openAgain is the time within which an item must sell again once the process
// after a crash is ready: a second until the items are checked, and another for
// the Loads of a few. Three times that is still less than the 10 s ack wait,
// which the predecessor's unacknowledged messages must not cost.
const openAgain = 2 * time.Second

// checkAfterCrashes checks a restarted process against the crowd's memory.
func (c *rushers) checkAfterCrashes(s *mortal) {
	t := c.t
	t.Helper()
	began := time.Now()
	c.sellOne()
	opened := time.Since(began)
	t.Logf("the item sold again %s after the process was ready", opened.Round(time.Millisecond))
	if opened > 3*openAgain {
		t.Errorf("the item sold again only after %s, want at most %s", opened, openAgain)
	}

	// Every answered attempt must be known without a further request.
	ends := func(p *rusher) {
		if p.told && !c.follow(p, time.Minute) { // promised for a minute after any fault heals
			t.Errorf("no outcome for %s", p)
		}
	}
	c.each(ends)
	// Then every shopper retries: an answered one must get the same answer, the
	// others a final one.
	c.each(func(p *rusher) {
		if !within(time.Minute, func() bool {
			r := c.rush(p)
			return p.told || p.final || r.HTTP == http.StatusForbidden
		}) {
			t.Errorf("no final answer for %s", p)
		}
		ends(p)
	})
	c.each(c.checkRole)
	c.checkSecondPath()
	conn, err := pgx.Connect(shortly(t), s.databaseURL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(shortly(t)) }()
	c.sellOut(conn)
	c.checkRows(conn)
	s.verify(t, c.writeLog())
}

// each runs fn for all shoppers, one wave at a time.
func (c *rushers) each(fn func(*rusher)) {
	var all errgroup.Group
	all.SetLimit(waveSize)
	for _, p := range c.shoppers {
		all.Go(func() error { fn(p); return nil })
	}
	_ = all.Wait() // none fails
}

// sellOne lets new shoppers try one after the other until one is in line.
func (c *rushers) sellOne() {
	p := c.newcomer()
	p.role = leaves
	pgtest.Eventually(c.t, 30*time.Second, func() bool {
		c.rush(p)
		return p.told
	}, "the item to sell again")
}

// A callback that the process was handling when it died is repeated after the
// bank's lease, and the shop queries the bank itself, both after 30 s. The long
// form waits for that; the short form does not have the time.
const (
	callbackComesAgain = 75 * time.Second
	callbackIsHere     = 2 * time.Second
)

// checkRole waits for the result of the shopper's own action.
func (c *rushers) checkRole(p *rusher) {
	switch {
	case p.paid:
		patience := callbackIsHere
		if *killRounds > 0 {
			patience = callbackComesAgain
		}
		if !c.becomes(p, statusPaid, patience) {
			// A shopper who paid and then cancels ends up paid: the money came
			// first, and closing queries the bank.
			c.ask(http.MethodPost, "/api/v1/orders/"+p.no+"/cancel", p.token, nil)
			if *killRounds > 0 || !c.becomes(p, statusPaid, 15*time.Second) {
				c.t.Errorf("the bank took the money, and the order is not paid: %s", p)
			}
		}
	case p.closed:
		if !c.becomes(p, statusClosed, 15*time.Second) {
			c.t.Errorf("the cancel was answered, and the order is not closed: %s", p)
		}
	}
}

// becomes polls until the shopper's order has the status.
func (c *rushers) becomes(p *rusher, status string, patience time.Duration) bool {
	return within(patience, func() bool {
		if r := c.ask(http.MethodGet, "/api/v1/orders/"+p.no, p.token, nil); r.ok() {
			c.hear(p, r)
		}
		return p.status == status
	})
}

// within polls until cond is true, and reports whether that happened in time.
// Unlike pgtest.Eventually it may run in any goroutine.
func within(d time.Duration, cond func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(d); time.Now().Before(deadline); <-tick.C {
		if cond() {
			return true
		}
	}
	return false
}

// checkSecondPath lets holders try a new path: it must lead to the order number
// that they have.
func (c *rushers) checkSecondPath() {
	left := 3
	for _, p := range c.shoppers {
		if left == 0 {
			return
		}
		if p.status != statusPending && p.status != statusPaid {
			continue
		}
		left--
		r := c.ask(http.MethodPost, "/api/v1/items/"+c.sale.ItemID+"/rush-path", p.token, map[string]int{"quantity": 1})
		if r = c.ask(http.MethodPost, "/api/v1/rush/"+r.Path, "", nil); r.Code != "already-bought" || r.OrderNo != p.no {
			c.t.Errorf("a second path was answered %d %s %s: %s", r.HTTP, r.Code, r.OrderNo, p)
		}
	}
}

// liveStates are the states in which an order holds units.
const liveStates = `('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed')`

// sellOut sells single units until the books show none left: a unit lost in a
// crash would keep it from ending.
func (c *rushers) sellOut(conn *pgx.Conn) {
	left := func() (units int) {
		require.NoError(c.t, conn.QueryRow(shortly(c.t), `SELECT $2 - coalesce(sum(quantity), 0) FROM orders.orders WHERE item_id = $1::text::bigint AND status IN `+liveStates,
			c.sale.ItemID, c.stock).Scan(&units))
		return units
	}
	pgtest.Eventually(c.t, 30*time.Second, func() bool {
		n := left()
		if n < 0 {
			c.t.Fatalf("%d units oversold", -n)
		}
		var all errgroup.Group
		all.SetLimit(2 * waveSize)
		for range n {
			p := c.newcomer()
			p.role, p.quantity = leaves, 1
			all.Go(func() error {
				if c.rush(p); p.told {
					c.follow(p, 10*time.Second)
				}
				return nil
			})
		}
		_ = all.Wait() // none fails
		return left() == 0
	}, "every unit to be sold")
}

// checkRows checks in Postgres that each answered number has one row of its
// user, and no user has more than one live order.
func (c *rushers) checkRows(conn *pgx.Conn) {
	t := c.t
	t.Helper()
	var twice int
	err := conn.QueryRow(shortly(t), `SELECT count(*) FROM (SELECT user_id FROM orders.orders WHERE item_id = $1::text::bigint AND status IN `+liveStates+`
		GROUP BY user_id HAVING count(*) > 1) x`, c.sale.ItemID).Scan(&twice)
	if err != nil || twice > 0 {
		t.Errorf("%d users have more than one live order (%v)", twice, err)
	}
	var nos []string
	var users []int64
	for _, p := range c.shoppers {
		if p.told {
			nos, users = append(nos, p.no), append(users, p.user)
		}
	}
	rows, err := conn.Query(shortly(t), `SELECT w.no::text FROM unnest($1::text[]::uuid[], $2::bigint[]) AS w (no, user_id)
		WHERE (SELECT count(*) FROM orders.orders o WHERE o.order_no = w.no AND o.user_id = w.user_id) <> 1`, nos, users)
	require.NoError(t, err)
	if lost, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(lost) > 0 {
		t.Errorf("numbers answered 202 without a row: %v (%v)", lost, err)
	}
}
