package sale

import (
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// obeyWithin is three times the second within which every instance must follow
// the operator.
const obeyWithin = 3 * time.Second

// shop is one sale on two instances that share Postgres, Redis and NATS.
type pair struct {
	db        *pgxpool.Pool
	redisURL  string
	instances [2]*shop.Instance
	sale      loadgen.Planned
	operator  string
	users     int64
}

func newShop(t *testing.T, stock int) *pair {
	t.Helper()
	s := &pair{db: pgtest.DB(t), redisURL: pgtest.RedisURL(t), operator: shop.Mint(t, 1, auth.Operator), users: 9000}
	natsURL := bustest.StartServer(t).URL
	for i := range s.instances {
		s.instances[i] = shop.Serve(t, s.databaseURL(), s.redisURL, "--nats-url="+natsURL)
	}
	s.sale = s.instances[0].Plan(t, stock, time.Second)
	for _, in := range s.instances {
		in.AwaitLoaded(t, s.sale.ItemID)
		s.buyer(t, in).Order(t, s.sale.ItemID) // each instance grants
	}
	return s
}

func (s *pair) databaseURL() string { return s.db.Config().ConnString() }

// buyer returns a user who has not bought yet.
func (s *pair) buyer(t *testing.T, in *shop.Instance) shop.Buyer {
	t.Helper()
	s.users++
	return shop.NewBuyer(t, in, s.users)
}

// do sends a request to one instance as the operator.
func (s *pair) do(t *testing.T, in *shop.Instance, method, path string, body any) map[string]any {
	t.Helper()
	return in.Do(t, method, "/api/v1/admin/"+path, s.operator, body, http.StatusOK)
}

// refuses waits until the instance answers a fresh path with the code, and then
// expects only that code. It returns the refused paths.
func (s *pair) refuses(t *testing.T, in *shop.Instance, fresh []string, code string) []string {
	t.Helper()
	pgtest.Eventually(t, obeyWithin, func() bool {
		if len(fresh) < 3 {
			t.Fatalf("the instance continues to grant instead of answering %q", code)
		}
		got := in.Send(t, fresh[0])
		if got == "" {
			fresh = fresh[1:] // this one was still granted
		}
		return got == code
	}, "the instance to answer "+code)
	for _, path := range fresh {
		require.Equal(t, "the answer to a path after the first "+code, in.Send(t, path), code)
	}
	return fresh
}

// paths fetches fresh paths from each instance while they are still issued.
func (s *pair) paths(t *testing.T, each int) (all [2][]string) {
	t.Helper()
	for i, in := range s.instances {
		for range each {
			_, path := s.buyer(t, in).Path(t, s.sale.ItemID)
			all[i] = append(all[i], path)
		}
	}
	return all
}

// TestTwoInstances: what happens on one takes effect on the other.
func TestTwoInstances(t *testing.T) {
	t.Parallel()
	s := newShop(t, 500)
	t.Run("sell each other's released units", s.sellReleasedUnits)
	t.Run("follow the operator", s.followTheOperator)
	t.Run("keep queued orders when it ends", s.keepQueuedOrders)
}

// sellReleasedUnits cancels on one instance and buys on the other, repeatedly.
// The second instance has just refused that item, so its sold-out flag is set.
func (s *pair) sellReleasedUnits(t *testing.T) {
	first, second := s.instances[0], s.instances[1]
	sale := first.Plan(t, 1, time.Second)
	second.AwaitLoaded(t, sale.ItemID)
	here, there := first, second

	rounds, user := 15, int64(5000)
	holder := shop.NewBuyer(t, here, user)
	no := holder.Order(t, sale.ItemID)
	for round := range rounds {
		holder.AwaitStatus(t, no, "pending_payment", 10*time.Second)
		user++
		next := shop.NewBuyer(t, there, user)
		if _, code := next.Rush(t, sale.ItemID); code != "all-held" && code != "too-hot" {
			t.Fatalf("round %d: the other instance answered %q while the unit is held", round, code)
		}
		holder.In.Do(t, http.MethodPost, "/api/v1/orders/"+no+"/cancel", holder.Token, nil, http.StatusOK)
		pgtest.Eventually(t, 3*time.Second, func() bool { // 1 s is promised
			n, code := next.Rush(t, sale.ItemID)
			no = n
			return code == ""
		}, "the released unit to be bought through the other instance")
		holder = next
		here, there = there, here
	}
}

func (s *pair) followTheOperator(t *testing.T) {
	first, second := s.instances[0], s.instances[1]
	activity, item := "activities/"+s.sale.ActivityID, "items/"+s.sale.ItemID

	// A pause, and a second one that changes nothing.
	fresh := s.paths(t, 10)
	paused := s.do(t, first, http.MethodPost, activity+"/pause", nil)
	for i, in := range s.instances {
		fresh[i] = s.refuses(t, in, fresh[i], "paused")
	}
	if again := s.do(t, second, http.MethodPost, activity+"/pause", nil); again["paused"] != true || again["updated_at"] != paused["updated_at"] {
		t.Errorf("the second pause changed something: %v, %v", paused, again)
	}

	// Its end: the refusals were not final, the same paths are granted now.
	s.do(t, second, http.MethodPost, activity+"/resume", nil)
	for i, in := range s.instances {
		pgtest.Eventually(t, obeyWithin, func() bool { return in.Send(t, fresh[i][0]) == "" }, "a path refused during the pause to be granted")
		for _, path := range fresh[i] {
			require.Equal(t, "the answer to a path after the resumption", in.Send(t, path), "")
		}
	}

	// An admission rate of none: both instances tell shoppers their places in one line.
	s.do(t, first, http.MethodPut, item+"/admission", map[string]int{"per_second": 0})
	require.Equal(t, "the rate on the other instance", s.do(t, second, http.MethodGet, item+"/admission", nil)["per_second"], 0.0)
	held := s.paths(t, 10)
	for i, in := range s.instances {
		held[i] = s.refuses(t, in, held[i], "wait-your-turn")
	}
	s.do(t, second, http.MethodPut, item+"/admission", map[string]any{"per_second": nil})
	for i, in := range s.instances {
		pgtest.Eventually(t, obeyWithin, func() bool { return in.Send(t, held[i][0]) == "" }, "the line to be let in")
		for _, path := range held[i] {
			require.Equal(t, "the answer to a path without a rate", in.Send(t, path), "")
		}
	}
}

// keepQueuedOrders terminates the sale: no further attempt is granted, and shoppers
// in line get their orders and can pay them.
func (s *pair) keepQueuedOrders(t *testing.T) {
	first, second := s.instances[0], s.instances[1]

	// The order writer is blocked: the database refuses every order that it inserts.
	_, err := s.db.Exec(t.Context(), `
		CREATE FUNCTION orders.held_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'held up by a test'; END $$;
		CREATE TRIGGER held_up BEFORE INSERT ON orders.orders FOR EACH STATEMENT EXECUTE FUNCTION orders.held_up()`)
	require.NoError(t, err)
	type queued struct {
		shop.Buyer
		no, path string
	}
	var line []queued
	for k := range 6 {
		b := s.buyer(t, s.instances[k%2])
		no, path := b.Path(t, s.sale.ItemID)
		require.Equal(t, "the answer", b.In.Send(t, path), "")
		line = append(line, queued{b, no, path})
	}
	fresh := s.paths(t, 10)
	ended := s.do(t, second, http.MethodPost, "activities/"+s.sale.ActivityID+"/terminate", nil)
	require.Equal(t, "the status", ended["status"], "terminated")
	for i, in := range s.instances {
		s.refuses(t, in, fresh[i], "ended")
	}
	for _, q := range line {
		q.AwaitStatus(t, q.no, "queued", obeyWithin)
		require.Equal(t, "the answer to a path granted before", q.In.Send(t, q.path), "")
	}
	again := s.do(t, first, http.MethodPost, "activities/"+s.sale.ActivityID+"/terminate", nil)
	require.Equal(t, "the time of the change after a second termination", again["updated_at"], ended["updated_at"])

	pgtest.Exec(t, s.db, `DROP TRIGGER held_up ON orders.orders`)
	for _, q := range line {
		q.AwaitStatus(t, q.no, "pending_payment", 15*time.Second) // the writer retries at least every 5 s
		q.Pay(t, q.no)
	}
	for _, command := range []string{"verify", "reconcile"} {
		shop.Command(t, 0, command, "--database-url="+s.databaseURL(), "--redis-url="+s.redisURL, "--data="+t.TempDir())
	}
	for items, found := range map[float64]map[string]any{
		2: s.do(t, first, http.MethodGet, "reconcile", nil),
		1: s.do(t, second, http.MethodPost, "reconcile", map[string]any{"item_id": s.sale.ItemID}),
	} {
		if list, ok := found["differences"].([]any); !ok || len(list) != 0 || found["items"] != items {
			t.Errorf("reconciled: %v", found)
		}
	}
	first.Do(t, http.MethodGet, "/api/v1/admin/reconcile?item_id=999", s.operator, nil, http.StatusNotFound)
}
