package bulletin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/queue"
	"stampede/seckill/seckillevent"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// bundle is a shop with one session of one item.
type bundle struct {
	*seckilltest.Bundle
	*Service
	item   *catalogue.Item
	bought int
	read   int // events that news has returned
}

func setup(t *testing.T, units int32, change ...func(*catalogue.Item)) *bundle {
	t.Helper()
	y := seckilltest.New(t)
	y.Write()
	b := &bundle{Bundle: y, item: y.Item(units, change...)}
	b.Service = b.instance()
	pgtest.Exec(t, y.DB, `INSERT INTO seckill.activities (id, name, status, starts_at, ends_at, external_id) OVERRIDING SYSTEM VALUE
		VALUES (1, 'Sale', 'running', now() - interval '1 hour', now() + interval '1 hour', 'sale')`)
	pgtest.Exec(t, y.DB, `INSERT INTO seckill.sessions (id, activity_id, name, opens_at, closes_at) OVERRIDING SYSTEM VALUE
		VALUES (1, 1, 'First', now() - interval '1 minute', now() + interval '1 hour')`)
	pgtest.Exec(t, y.DB, `INSERT INTO seckill.items (id, session_id, activity_id, sku, title, list_price, sale_price, stock, external_id) OVERRIDING SYSTEM VALUE
		VALUES ($1, 1, 1, 'phone', 'A phone', 100, 100, $2, 'P-1')`, b.item.ID, units)
	return b
}

// instance is a process that publishes without a pause.
func (b *bundle) instance() *Service {
	s := New(Deps{DB: b.DB, Stock: b.Stock, Outbox: seckilltest.Waker{}, Log: slog.New(slog.DiscardHandler)})
	s.pause = 0
	return s
}

// buy takes a unit and waits for its order.
func (b *bundle) buy() ids.ID {
	b.T.Helper()
	b.bought++
	user := int64(b.bought)
	no := ids.NewFor(user)
	state, _, err := b.Stock.State(b.T.Context(), b.item.Stock())
	require.NoError(b.T, err)
	var d inventory.Decision
	require.NoError(b.T, b.Stock.Reserve(b.T.Context(), b.item.Stock(), state.Epoch, []inventory.Attempt{{User: user, No: no, Quantity: 1}}, &d))
	require.Equal(b.T, "verdict", d.Results[0].Verdict, inventory.Granted)
	grants := seckillevent.Batch{Grants: []seckillevent.Grant{{No: no, User: user, Quantity: 1, Seq: d.Seq}}}
	queue.Describe(&grants, b.item, 0, state.Epoch)
	require.NoError(b.T, b.Queue().Publish(b.T.Context(), &grants, grants.Encode(nil)))
	pgtest.Eventually(b.T, 30*time.Second, func() bool { return b.Orders.Count() == b.bought }, "the order is written")
	return no
}

// says requires what one look publishes.
func (b *bundle) says(what string, want ...string) {
	b.T.Helper()
	require.NoError(b.T, b.look(b.T.Context()))
	require.Equal(b.T, what, b.news(), strings.Join(want, ", "))
}

// news are the events since the last time.
func (b *bundle) news() string {
	b.T.Helper()
	rows, err := b.DB.Query(b.T.Context(), `SELECT subject, payload FROM platform.outbox WHERE subject LIKE 'events.session.%' OR subject LIKE 'events.item.%' ORDER BY id OFFSET $1`, b.read)
	require.NoError(b.T, err)
	defer rows.Close()
	var all []string
	for rows.Next() {
		var subject string
		var payload []byte
		require.NoError(b.T, rows.Scan(&subject, &payload))
		b.read++
		if strings.HasPrefix(subject, "events.session.") {
			var s seckillevent.Session
			require.NoError(b.T, json.Unmarshal(payload, &s))
			require.Equal(b.T, "names of the session", fmt.Sprintln(s.SessionID, s.ActivityID, s.ActivityExternalID), "1 1 sale\n")
			all = append(all, fmt.Sprint(strings.TrimPrefix(subject, "events."), map[bool]string{true: " by an operator"}[s.Terminated]))
			continue
		}
		var of seckillevent.Items
		require.NoError(b.T, json.Unmarshal(payload, &of))
		for _, i := range of.Items {
			require.Equal(b.T, "names of the item", fmt.Sprintln(i.ItemID == b.item.ID, i.SKU, i.ExternalID, i.SessionID, i.ActivityExternalID), "true phone P-1 1 sale\n")
			all = append(all, fmt.Sprintf("%s %d %d", strings.TrimPrefix(subject, "events."), i.Left, i.Held))
		}
	}
	require.NoError(b.T, rows.Err())
	return strings.Join(all, ", ")
}

func (b *bundle) sql(statement string) {
	b.T.Helper()
	pgtest.Exec(b.T, b.DB, statement)
}

func TestSessionsAndItemsAreToldOnceEach(t *testing.T) {
	t.Parallel()
	b := setup(t, 2)
	b.sql(`UPDATE seckill.activities SET status = 'draft'`)
	b.says("a draft")
	b.sql(`UPDATE seckill.activities SET status = 'scheduled'`)
	b.sql(`UPDATE seckill.sessions SET opens_at = now() + interval '1 minute'`)
	b.says("before the opening")
	b.sql(`UPDATE seckill.sessions SET opens_at = now() - interval '1 second'`)
	b.SetState("paused", 1)
	b.says("a paused item", "session.opened")
	b.SetState("paused", 0)
	b.says("resumed", "item.opened 2 0")
	b.says("nothing has changed")

	first, second := b.buy(), b.buy()
	b.says("all taken", "item.sold_out 0 2")
	b.says("nothing has changed")
	b.Close(first)
	b.says("one closed", "item.units_back 1 1")
	b.Pay(second)
	b.says("units left and sold")
	third := b.buy()
	b.Service = b.instance() // a restart
	b.says("sold out again", "item.sold_out 0 1")

	// Between two events there is a pause; what has changed back by its end is not told.
	b.pause = time.Hour
	b.Close(third)
	b.says("units back within the pause")
	b.buy()
	b.pause = 0
	b.says("gone again")
	// What Redis says counts while the item decides, and is as Postgres has it.
	b.SetState("remaining", 1)
	b.SetState("fenced", 99)
	b.says("a fenced item")
	b.SetState("fenced", 0)
	for _, column := range []string{"rev", "epoch"} {
		b.sql(`UPDATE inventory.stock SET ` + column + ` = ` + column + ` + 1`)
		b.says("a state with an older " + column)
		b.sql(`UPDATE inventory.stock SET ` + column + ` = ` + column + ` - 1`)
	}
	b.says("as it was", "item.units_back 1 0")
	require.NoError(t, b.Redis.FlushDB(t.Context()).Err())
	b.says("an item that Redis lost")

	b.sql(`UPDATE seckill.sessions SET closes_at = now()`)
	b.says("the end", "session.ended")
	b.sql(`UPDATE seckill.sessions SET closes_at = now() + interval '1 hour'`)
	b.says("the end is put off", "session.opened")
	b.sql(`UPDATE seckill.activities SET status = 'terminated'`)
	b.says("terminated", "session.ended by an operator")
	b.says("nothing has changed")
}

func TestUnlimitedItemNeverSellsOut(t *testing.T) {
	t.Parallel()
	b := setup(t, 0, func(i *catalogue.Item) { i.Unlimited = true })
	b.says("opened", "session.opened", "item.opened 0 0")
	b.buy()
	b.says("one taken")
}

// A sale that no instance saw is told afterwards, unless an operator may have withdrawn it before it opened.
func TestSessionsThatWereMissed(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.sql(`UPDATE seckill.activities SET status = 'terminated'`)
	b.says("withdrawn")
	b.sql(`UPDATE seckill.activities SET status = 'ended'`)
	b.says("missed", "session.opened")
	b.says("missed, the end", "session.ended")
	b.says("nothing has changed")
}

// Two instances that believe to lead, and one whose Redis does not answer.
func TestLeadersOfOneMomentTellOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	away := b.instance()
	away.deps.Stock = noStock{}
	look := func() {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := b.look(t.Context()); err != nil {
					t.Error(err)
				}
				if err := away.look(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	look()
	require.Equal(t, "events", b.news(), "session.opened, item.opened 1 0")
	for range 5 {
		no := b.buy()
		look()
		require.Equal(t, "events", b.news(), "item.sold_out 0 1")
		b.Close(no)
		look()
		require.Equal(t, "events", b.news(), "item.units_back 1 0")
	}
}

type noStock struct{}

func (noStock) Left(context.Context) (map[int64]inventory.Left, error) {
	return nil, context.DeadlineExceeded
}

// hungStock is a Redis whose host is silent.
type hungStock struct{}

func (hungStock) Left(ctx context.Context) (map[int64]inventory.Left, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Sessions wait neither for a Redis that answers late nor for one that does not answer.
func TestSessionsDoNotWaitForRedis(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	b.deps.Stock = hungStock{}
	b.timeout = time.Second
	require.ErrorIs(t, b.look(t.Context()), context.DeadlineExceeded)
	require.Equal(t, "events", b.news(), "session.opened")
}

// A running instance publishes, and another one goes on when it stops.
func TestLeadershipMovesOn(t *testing.T) {
	t.Parallel()
	b := setup(t, 1)
	stop := b.Bundle.Run(b.Service.Run)
	seen := func(n int) func() bool {
		return func() bool {
			return pgtest.Read[int](t, b.DB, `SELECT count(*)::int FROM platform.outbox WHERE subject LIKE 'events.session.%' OR subject LIKE 'events.item.%'`) == n
		}
	}
	pgtest.Eventually(t, 30*time.Second, seen(2), "the opening is published")
	stop()
	b.buy()
	b.Bundle.Run(b.instance().Run)
	pgtest.Eventually(t, 30*time.Second, seen(3), "the other instance publishes")
	require.Equal(t, "events", b.news(), "session.opened, item.opened 1 0, item.sold_out 0 1")
}
