package order

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/modeltest"
	"stampede/seckill/seckillevent"
)

// walked is one order on its way through one permutation.
type walked struct {
	course
	user        int64
	no, rivalNo ids.ID
	order       []happening
}

// walk takes many orders through many permutations together: at each step all
// orders with the same event get it in one set, as in production.
type walk struct {
	*bundle
	item   *seckillevent.Batch
	stale  *seckillevent.Batch // the same item, under an older epoch
	orders []*walked
	units  int32
	cameIn map[ids.ID]*seckillevent.Batch // the message of each grant that came
}

func newWalk(s *bundle, orders [][]happening) *walk {
	w := &walk{bundle: s, units: int32(2 * len(orders)), cameIn: map[ids.ID]*seckillevent.Batch{}}
	w.item = s.item(w.units)
	s.exec(`UPDATE inventory.stock SET epoch = 5 WHERE item_id = $1`, w.item.ItemID)
	stale := *w.item
	stale.Epoch, w.item.Epoch = 4, 5
	w.stale = &stale
	for i, order := range orders {
		user := w.item.ItemID*10_000 + int64(i) + 1
		w.orders = append(w.orders, &walked{
			user: user, no: ids.NewFor(user), rivalNo: ids.NewFor(user), order: order,
		})
	}
	return w
}

// messageOf is one message with the grants of many orders.
func messageOf(of *seckillevent.Batch, group []*walked, no func(*walked) ids.ID) *seckillevent.Batch {
	m := *of
	m.ID, m.Grants = ids.New(), nil
	for i, o := range group {
		m.Grants = append(m.Grants, seckillevent.Grant{No: no(o), User: o.user, Quantity: 1, Seq: int64(i) + 1})
	}
	return &m
}

func own(o *walked) ids.ID     { return o.no }
func rivalNo(o *walked) ids.ID { return o.rivalNo }

// happens applies an event to a group and returns the numbers on which it had
// an effect, for events whose answer says so.
func (w *walk) happens(what happening, group []*walked) (effect map[ids.ID]bool, tells bool) {
	effect = map[ids.ID]bool{}
	nos := make([]ids.ID, len(group))
	for i, o := range group {
		nos[i] = o.no
	}
	switch what {
	case grantCame:
		w.grant(group)
	case grantAgain:
		w.deliver(messageOf(w.item, group, own))
	case grantLate:
		w.deliver(messageOf(w.stale, group, own))
	case rivalCame:
		w.deliver(messageOf(w.item, group, rivalNo))
	case moneyCame, moneyCameAgain:
		w.pay(group, effect)
		return effect, true
	case cancelWanted:
		for _, o := range group {
			_, err := w.Claim(w.t.Context(), o.no, o.user)
			if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrClosing) && !errors.Is(err, ErrNotCancelable) {
				w.t.Fatal(err)
			}
			effect[o.no] = err == nil
		}
		return effect, true
	case deadlineCame:
		w.exec(`UPDATE orders.orders SET pay_deadline = clock_timestamp() WHERE order_no = ANY($1) AND status = 'pending_payment'`, nos)
		claimed, err := w.ClaimDue(w.t.Context(), 10_000)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, no := range claimed {
			effect[no] = true
		}
		return effect, true
	case cancelEnds, expiryEnds:
		reason := orderevent.ReasonCanceled
		if what == expiryEnds {
			reason = orderevent.ReasonTimeout
		}
		closed, err := w.CloseClaimed(w.t.Context(), nos, reason)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, o := range closed {
			effect[o.No] = true
		}
		return effect, true
	case claimLapses:
		w.exec(`UPDATE orders.orders SET closing_until = clock_timestamp() WHERE order_no = ANY($1) AND status = 'pending_payment'`, nos)
	}
	return effect, false
}

// grant delivers the grants: those delivered before in their original message,
// which is repeated unchanged.
func (w *walk) grant(group []*walked) {
	var fresh []*walked
	var fetch []*seckillevent.Batch
	for _, o := range group {
		switch m := w.cameIn[o.no]; {
		case m == nil:
			fresh = append(fresh, o)
		case !slices.Contains(fetch, m):
			fetch = append(fetch, m)
		}
	}
	if len(fresh) > 0 {
		m := messageOf(w.item, fresh, own)
		for _, o := range fresh {
			w.cameIn[o.no] = m
		}
		fetch = append(fetch, m)
	}
	w.deliver(fetch...)
}

// pay settles a capture for each order.
func (w *walk) pay(group []*walked, effect map[ids.ID]bool) {
	w.inTx(func(tx pgx.Tx) error {
		for _, o := range group {
			got, paid, err := w.MarkPaid(w.t.Context(), tx, o.no, PaidBy{PaymentNo: ids.New()}, w.costs(o.no))
			switch {
			case errors.Is(err, ErrNotFound) && o.status == "":
			case err != nil:
				return err
			case !paid && got.Status != o.status:
				return fmt.Errorf("%s is %s, want %s", o.no, got.Status, o.status)
			}
			effect[o.no] = paid
		}
		return nil
	})
}

// step applies the k-th event of every permutation, event by event.
func (w *walk) step(k int) {
	w.t.Helper()
	groups := map[happening][]*walked{}
	for _, o := range w.orders {
		groups[o.order[k]] = append(groups[o.order[k]], o)
	}
	for _, what := range slices.Sorted(maps.Keys(groups)) {
		effect, tells := w.happens(what, groups[what])
		for _, o := range w.orders {
			mine := o.order[k] == what
			if !mine && what == deadlineCame && o.due && o.status == orderevent.StatusPending && !o.claimed {
				mine = true // its claim expired, and it is still due: the sweeper claims it too
			}
			switch {
			case mine:
				if had := o.apply(what); tells && had != effect[o.no] {
					w.t.Errorf("%q, step %d: the event had an effect: %v, want %v", o.order, k, effect[o.no], had)
				}
			case effect[o.no]:
				w.t.Errorf("%q, step %d: another order's event changed it", o.order, k)
			}
		}
	}
}

// check compares every row, its history and the stock with the model.
func (w *walk) check(k int) {
	w.t.Helper()
	rows, err := w.db.Query(w.t.Context(), `SELECT o.order_no, o.status, o.reason, o.version, coalesce(o.closing_until > clock_timestamp(), false),
			coalesce((SELECT string_agg(h.version || ' ' || h.status || ' ' || h.reason, ',' ORDER BY h.version)
				FROM orders.history h WHERE h.bucket = o.bucket AND h.order_no = o.order_no), '')
		FROM orders.orders o WHERE o.item_id = $1`, w.item.ItemID)
	if err != nil {
		w.t.Fatal(err)
	}
	got := map[ids.ID]string{}
	var no ids.ID
	var status, reason, history string
	var version int
	var claimed bool
	if _, err := pgx.ForEachRow(rows, []any{&no, &status, &reason, &version, &claimed, &history}, func() error {
		got[no] = fmt.Sprintf("%s/%s v%d claimed %v [%s]", status, reason, version, claimed, history)
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	var live int32
	for _, o := range w.orders {
		want := ""
		if o.status != "" {
			var history []string
			for i, status := range o.history {
				reason := ""
				if status == orderevent.StatusClosed {
					reason = o.reason
				}
				history = append(history, fmt.Sprintf("%d %s %s", i+2, status, reason))
			}
			want = fmt.Sprintf("%s/%s v%d claimed %v [%s]", o.status, o.reason, 1+len(o.history), o.claimed, strings.Join(history, ","))
		}
		if got[o.no] != want {
			w.t.Fatalf("%q, after %d steps\n got %s\nwant %s", o.order, k+1, got[o.no], want)
		}
		want = ""
		if o.rival != "" {
			want = o.rival + "/" + o.rivalReason
		}
		if rival, _, _ := strings.Cut(got[o.rivalNo], " "); rival != want {
			w.t.Fatalf("%q, after %d steps: the rival is %q, want %q", o.order, k+1, rival, want)
		}
		if o.live() {
			live++
		}
	}
	if left := w.available(w.item.ItemID); left != w.units-live {
		w.t.Fatalf("after %d steps %d units are left of %d with %d live orders", k+1, left, w.units, live)
	}
}

// TestPermutationsOfEvents takes orders through permutations of six events, in
// make long through every one, and compares rows, claims, history and stock with
// the model after each event: only design.md's transitions happen, each update
// is conditional (the second one changes no row and reports so), every version
// has its line of history, and units are neither lost nor created.
func TestPermutationsOfEvents(t *testing.T) {
	t.Parallel()
	s := setup(t, func(cfg *Config, _ *Deps) { cfg.ClosingFor = 10 * time.Minute }) // no claim ends by itself
	for name, events := range map[string][]happening{
		"payments against a cancellation": {grantCame, moneyCame, moneyCameAgain, cancelWanted, cancelEnds, claimLapses},
		"a payment against the deadline":  {grantCame, grantAgain, moneyCame, deadlineCame, expiryEnds, claimLapses},
		"cancellation and deadline":       {grantCame, cancelWanted, deadlineCame, cancelEnds, expiryEnds, claimLapses},
		"another number of the user":      {grantCame, grantAgain, rivalCame, moneyCame, cancelWanted, cancelEnds},
		"a refusal":                       {grantCame, grantLate, rivalCame, moneyCame, cancelWanted, cancelEnds},
		"grants alone":                    {grantCame, grantCame, grantAgain, grantLate, rivalCame, rivalCame},
	} {
		w := newWalk(s, modeltest.Permutations(events, 30))
		t.Run(name, func(t *testing.T) {
			w.bundle = s.in(t)
			for k := range events {
				w.step(k)
				w.check(k)
			}
		})
	}
	s.eachChangeOnce()
}

// in is the same bundle for a subtest.
func (s *bundle) in(t *testing.T) *bundle {
	t.Helper()
	mine := *s
	mine.t = t
	return &mine
}

// eachChangeOnce compares the outbox with the rows: every status that an order
// ever entered has exactly one event, with the version that entered it.
func (s *bundle) eachChangeOnce() {
	s.t.Helper()
	told := map[string]int{}
	for _, orders := range s.events() {
		for _, o := range orders {
			told[fmt.Sprintf("%s %d %s", o.No, o.Version, o.Status)]++
		}
	}
	rows, err := s.db.Query(s.t.Context(), `SELECT order_no, version, status FROM orders.history
		UNION ALL SELECT order_no, 1, CASE WHEN status = 'refused' THEN status ELSE 'pending_payment' END FROM orders.orders`)
	if err != nil {
		s.t.Fatal(err)
	}
	entered := 0
	var no ids.ID
	var version int
	var status string
	if _, err := pgx.ForEachRow(rows, []any{&no, &version, &status}, func() error {
		entered++
		if n := told[fmt.Sprintf("%s %d %s", no, version, status)]; n != 1 {
			s.t.Errorf("%s entered %s with version %d, with %d events for it", no, status, version, n)
		}
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	if entered != len(told) {
		s.t.Errorf("%d changes and %d events", entered, len(told))
	}
}
