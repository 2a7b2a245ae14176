package kill

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// What a buyer does with an order.
type role int

const (
	leaves role = iota
	pays
	cancels
)

// rusher is one user with one rush path, and every answer to that user. It
// belongs to one goroutine at a time.
type rusher struct {
	user     int64
	quantity int
	role     role

	token string
	path  string
	no    string

	told    bool   // answered 202
	refusal string // the last refusal's code, "" for no answer
	final   bool   // permanently refused
	status  string // the last known one, "" or queued before there is an order
	reason  string
	paid    bool // the bank took the money
	closed  bool // the cancel was confirmed
}

// rushers play shoppers against a shop whose process may die under them.
type rushers struct {
	t      *testing.T
	rng    *rand.Rand
	client *http.Client
	url    string
	stock  int
	shards int // of the item; its crowd is at half of them, so that these borrow what the others have

	sale     loadgen.Planned
	shoppers []*rusher
	nextUser int64
}

func newRushers(t *testing.T, rng *rand.Rand, url string) *rushers {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute}
	t.Cleanup(transport.CloseIdleConnections)
	return &rushers{
		t: t, rng: rng, url: url,
		client: &http.Client{Transport: transport, Timeout: 15 * time.Second},
		// More than all waves of a scenario can buy, so that a point stays reachable.
		stock: 300, nextUser: 1000 + rng.Int64N(1_000_000),
	}
}

// plan publishes the sale. A second item is never bought: it only has to be loaded, so
// that a start has more than one Load to die in. plan reports false if the process died
// meanwhile.
func (c *rushers) plan() bool {
	sales := c.publish(c.stock, 10)
	if sales != nil {
		c.sale = sales[0]
	}
	return sales != nil
}

// publish publishes a sale, open immediately, of an item for each number of units, with
// a limit of two units per user; nil without an answer.
func (c *rushers) publish(stocks ...int) (sales []loadgen.Planned) {
	type object = map[string]any
	opens, closes := time.Now(), time.Now().Add(30*time.Minute)
	list, price := loadgen.Prices()
	var goods []object
	for i, stock := range stocks {
		goods = append(goods, object{"sku": fmt.Sprintf("phone-%d", i), "title": "Phone", "list_price": list, "sale_price": price, "stock": stock})
	}
	operator := shop.Mint(c.t, 1, auth.Operator)
	made := c.ask(http.MethodPost, "/api/v1/admin/activities", operator, object{
		"name": "Kill", "starts_at": opens, "ends_at": closes, "payment_window_seconds": 900, "limit_per_user": 2,
		"sessions": []object{{"name": "now", "opens_at": opens, "closes_at": closes, "items": goods}},
	})
	if !made.ok() || !c.ask(http.MethodPost, "/api/v1/admin/activities/"+made.ID+"/publish", operator, nil).ok() {
		return nil // dead, or this draft is forgotten and the next one published
	}
	for _, item := range made.Session[0].Items {
		sales = append(sales, loadgen.Planned{ActivityID: made.ID, SessionID: made.Session[0].ID, ItemID: item.ID})
	}
	return sales
}

// newcomer returns the next user, with a role and a quantity chosen by the seed.
func (c *rushers) newcomer() *rusher {
	for c.nextUser++; c.shards > 0 && int(ids.Bucket(c.nextUser))%c.shards >= c.shards/2; {
		c.nextUser++
	}
	s := &rusher{user: c.nextUser, quantity: 1 + c.rng.IntN(2), role: role(c.rng.IntN(3))}
	s.token = shop.Mint(c.t, s.user, auth.Shopper)
	c.shoppers = append(c.shoppers, s)
	return s
}

// The statuses of an order that a shopper of this package meets.
const (
	statusPending = "pending_payment"
	statusPaid    = "paid"
	statusClosed  = "closed"
	statusRefused = "refused"
)

// waveSize is how many shoppers rush at the same time: enough for batches, few
// enough that a stage's points are reached several times before the stock is
// sold out.
const waveSize = 12

// wave lets shoppers rush at the same time, those without a final answer first,
// and then continue with their orders.
func (c *rushers) wave(during func()) {
	var some []*rusher
	for _, s := range c.shoppers {
		if !s.told && !s.final && len(some) < waveSize {
			some = append(some, s)
		}
	}
	for size := 1 + c.rng.IntN(waveSize); len(some) < size; {
		some = append(some, c.newcomer())
	}
	var all sync.WaitGroup
	for _, s := range some {
		all.Go(func() {
			if c.rush(s); s.told {
				c.follow(s, 5*time.Second)
				c.act(s)
			}
		})
	}
	if during != nil {
		during()
	}
	all.Wait()
	if !slices.ContainsFunc(some, func(s *rusher) bool { return s.told }) {
		<-time.After(refusedPause)
	}
}

// units is the number of units requested by shoppers in line or with an order.
func (c *rushers) units() (n int) {
	for _, s := range c.shoppers {
		if s.told && !s.closed {
			n += s.quantity
		}
	}
	return n
}

// refusedPause is how long shoppers wait if no one in a wave got in line: the
// item is being loaded, or the process is gone.
const refusedPause = 20 * time.Millisecond

// rush sends the shopper's attempt, always with the first path that was issued.
func (c *rushers) rush(s *rusher) reply {
	if s.path == "" {
		r := c.ask(http.MethodPost, "/api/v1/items/"+c.sale.ItemID+"/rush-path", s.token, map[string]int{"quantity": s.quantity})
		if !r.ok() {
			s.refusal = "path: " + r.Code
			return r
		}
		s.path, s.no = r.Path, r.OrderNo
	}
	r := c.ask(http.MethodPost, "/api/v1/rush/"+s.path, "", nil)
	switch {
	case r.HTTP == http.StatusAccepted:
		if r.OrderNo != s.no {
			c.t.Errorf("user %d rushed with number %s and got the answer %s", s.user, s.no, r.OrderNo)
		}
		s.told = true
	case r.HTTP != 0:
		if s.told {
			c.t.Errorf("user %d was answered 202 for %s before, now %d %s", s.user, s.no, r.HTTP, r.Code)
		}
		s.refusal = r.Code
		s.final = slices.Contains([]string{"sold-out", "all-held", "not-enough", "already-bought", "ended"}, r.Code)
	default:
		s.refusal = ""
	}
	return r
}

// follow polls until the number has become an order or a refusal; false if that
// did not happen in time, because of a crash or otherwise.
func (c *rushers) follow(s *rusher, patience time.Duration) (ended bool) {
	within(patience, func() (stop bool) {
		r := c.ask(http.MethodGet, "/api/v1/orders/"+s.no, s.token, nil)
		switch {
		case r.HTTP == 0:
			return true
		case r.HTTP == http.StatusNotFound:
			c.t.Errorf("user %d was answered 202 for %s, which is now %s", s.user, s.no, r.Code)
			return true
		case r.ok() && r.Status != "queued":
			c.hear(s, r)
			ended = true
		}
		return ended
	})
	return ended
}

// hear records a status and checks that it does not contradict an earlier one.
func (c *rushers) hear(s *rusher, r reply) {
	var allowed []string
	switch s.status {
	case statusPending:
		allowed = []string{statusPending, statusPaid, statusClosed}
	case statusPaid, statusClosed, statusRefused:
		allowed = []string{s.status}
	}
	state, ok := r.Status.(string)
	if !ok || allowed != nil && !slices.Contains(allowed, state) {
		c.t.Errorf("order %s was %q and is now %v", s.no, s.status, r.Status)
	}
	if state == statusRefused && r.Reason == "" {
		c.t.Errorf("order %s was refused without a reason", s.no)
	}
	s.status, s.reason = state, r.Reason
}

// act performs the shopper's intended action on a pending order.
func (c *rushers) act(s *rusher) {
	if s.status != statusPending {
		return
	}
	switch s.role {
	case pays:
		r := c.ask(http.MethodPost, "/api/v1/orders/"+s.no+"/payments", s.token, map[string]string{})
		if r.ok() {
			s.paid = c.ask(http.MethodPost, r.PayURL, "", map[string]string{"action": "pay"}).ok()
		}
	case cancels:
		s.closed = c.ask(http.MethodPost, "/api/v1/orders/"+s.no+"/cancel", s.token, nil).ok()
	default:
	}
}

// writeLog writes the client log, for verify.
func (c *rushers) writeLog() string {
	entries := make([]proof.ClientRecord, 0, len(c.shoppers))
	for _, s := range c.shoppers {
		if s.no == "" {
			continue
		}
		no, err := ids.Parse(s.no)
		require.NoError(c.t, err)
		e := proof.ClientRecord{OrderNo: no, UserID: s.user, Answer: s.refusal, Status: s.status}
		if s.told {
			e.Answer = "queued"
		}
		entries = append(entries, e)
	}
	name := filepath.Join(c.t.TempDir(), "told.jsonl")
	require.NoError(c.t, loadgen.WriteLogFile(name, entries))
	return name
}

func (s *rusher) String() string {
	return fmt.Sprintf("user %s, number %s, told %t, refusal %q, status %q %s", strconv.FormatInt(s.user, 10), s.no, s.told, s.refusal, s.status, s.reason)
}
