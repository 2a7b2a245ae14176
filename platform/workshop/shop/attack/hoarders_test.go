package attack

import (
	"net/http"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/shop"
)

const (
	hoarders, buyers = 3, 5
	hoardedUnits     = 3
	// hoarderGrants ends the attack: seven rounds of three accounts hold every unit
	// for most of a day with the usual payment window.
	hoarderGrants = 7 * hoarders
)

// TestAttackHoarders plays accounts that hold every unit without paying: they
// rush first, cancel shortly before their deadline, and rush again at once, with
// paths that they requested ahead and with new ones. Shoppers who want to buy
// ask a tenth as often and must get the units. Time is shrunk: a hoarder keeps a
// unit for some rounds of requests, and units return within two seconds.
func TestAttackHoarders(t *testing.T) {
	t.Parallel()
	databaseURL, redisURL := pgtest.DatabaseURL(t), pgtest.RedisURL(t)
	in := shop.Serve(t, databaseURL, redisURL, "--units-return-within=2s")
	g := guarded{in, shop.Mint(t, 1, auth.Operator), time.Now().UTC()}
	t.Run("attack", func(t *testing.T) {
		for i, activity := range []map[string]any{{"name": "by default"}, {"name": "buying again is allowed", "rebuy_after_close": true}} {
			name := activity["name"].(string)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				a := newHoarding(t, g, activity, int64(9_000+100*i))
				pgtest.Eventually(t, 60*time.Second, a.round, "the shoppers or the hoarders to have the units")
				if a.grants >= 2*hoarders || a.bought != hoardedUnits {
					t.Errorf("hoarders were granted %d units and shoppers bought %d; want the first %d, and every unit", a.grants, a.bought, hoarders)
				}
			})
		}
	})
	shop.Command(t, 0, "verify", "--database-url="+databaseURL, "--redis-url="+redisURL, "--data="+t.TempDir())
}

// hoarding is one sale under attack.
type hoarding struct {
	t              *testing.T
	item           string
	hoarders       []*hoarder
	honest         []*hoarder // who buy what they get
	rounds         int
	grants, bought int
}

// hoarder is a shopper with paths requested ahead.
type hoarder struct {
	shop.Buyer
	nos, paths []string
	holding    string // the number of the order that holds a unit
	since      int    // the round of its grant
}

func newHoarding(t *testing.T, g guarded, activity map[string]any, users int64) *hoarding {
	t.Helper()
	price := map[string]any{"amount": 9900, "currency": "CNY"}
	a := &hoarding{t: t, item: g.plan(t, activity, map[string]any{
		"items": []any{map[string]any{"sku": "hoarded", "title": "Phone", "stock": hoardedUnits, "list_price": price, "sale_price": price}},
	})}
	for i := range int64(hoarders + buyers) {
		h := &hoarder{Buyer: shop.NewBuyer(t, g.Instance, users+i)}
		for range hoarderGrants / hoarders {
			no, path := h.Path(t, a.item)
			h.nos, h.paths = append(h.nos, no), append(h.paths, path)
		}
		if i < hoarders {
			a.hoarders = append(a.hoarders, h)
			pgtest.Eventually(t, 30*time.Second, func() bool { return h.send(a) }, "the first units to go to the hoarders")
			a.grants++
			continue
		}
		a.honest = append(a.honest, h)
	}
	return a
}

// round lets every hoarder act, and in each tenth round every shopper. It reports
// whether the attack has ended.
func (a *hoarding) round() bool {
	a.rounds++
	for _, h := range a.hoarders {
		switch {
		case h.holding != "":
			h.letGo(a)
		case h.send(a):
			a.grants++
		}
	}
	if a.rounds%10 == 0 {
		for _, h := range a.honest {
			if h.holding == "" && h.send(a) {
				h.AwaitStatus(a.t, h.holding, "pending_payment", 30*time.Second)
				h.Pay(a.t, h.holding)
				a.bought++
			}
		}
	}
	return a.grants >= hoarderGrants || a.bought == hoardedUnits
}

// send rushes with the next path requested ahead, and with a new one when the
// shop issues one. It reports whether a unit was granted.
func (h *hoarder) send(a *hoarding) bool {
	if len(h.paths) == 0 {
		status, doc := h.In.Call(a.t, http.MethodPost, "/api/v1/items/"+a.item+"/rush-path", h.Token, map[string]int{"quantity": 1})
		if status != http.StatusOK {
			return false
		}
		h.nos, h.paths = append(h.nos, doc["order_no"].(string)), append(h.paths, doc["path"].(string)) // strings, or the test is broken
	}
	if code := h.In.Send(a.t, h.paths[0]); code != "" {
		if code == "already-bought" {
			h.nos, h.paths = h.nos[1:], h.paths[1:]
		}
		return false
	}
	h.holding, h.since = h.nos[0], a.rounds
	h.nos, h.paths = h.nos[1:], h.paths[1:]
	return true
}

// letGo cancels shortly before the deadline.
func (h *hoarder) letGo(a *hoarding) {
	if a.rounds-h.since < 5 {
		return
	}
	if status, _ := h.In.Call(a.t, http.MethodPost, "/api/v1/orders/"+h.holding+"/cancel", h.Token, nil); status == http.StatusOK {
		h.holding = ""
	}
}
