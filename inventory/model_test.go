package inventory

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"stampede/order/orderevent"
	"stampede/platform/ids"
)

// model is one item as it should be: what Redis holds, what Postgres holds, and
// the events on their way between them.
type model struct {
	b    *bundle
	item Item

	// Redis
	epoch, total, remaining, committed, seq, persisted, rel, rev int64
	limit                                                        int32
	unlimited, paused, rebuy                                     bool
	users                                                        map[int64]mark
	holds                                                        map[ids.ID]int64 // number → sequence
	gone                                                         map[ids.ID]bool
	closed                                                       map[int64]ids.ID // who may not have units again, without rebuy

	// Postgres
	rowRev, rowTotal, available int64
	rowLimit                    int32
	rowPaused                   bool
	orders                      map[ids.ID]*orderevent.Order

	released, committing []orderevent.Order // events not delivered yet, in any order
	numbers              [][]ids.ID         // per user
	quantity             map[ids.ID]int32
}

func newModel(b *bundle, t *rapid.T, id int64) *model {
	n := onSale(id, rapid.Int32Range(0, 12).Draw(t, "total"))
	n.UserLimit = rapid.Int32Range(1, 3).Draw(t, "limit")
	n.Unlimited = rapid.IntRange(0, 4).Draw(t, "unlimited") == 0
	n.Rebuy = rapid.Bool().Draw(t, "rebuy")
	item, epoch := b.loaded(n)
	m := &model{
		b: b, item: item, epoch: epoch, total: int64(n.Total), remaining: int64(n.Total), rev: 1, limit: n.UserLimit, unlimited: n.Unlimited, rebuy: n.Rebuy,
		users: map[int64]mark{}, holds: map[ids.ID]int64{}, gone: map[ids.ID]bool{}, closed: map[int64]ids.ID{},
		rowRev: 1, rowTotal: int64(n.Total), available: int64(n.Total), rowLimit: n.UserLimit,
		orders: map[ids.ID]*orderevent.Order{}, quantity: map[ids.ID]int32{},
	}
	for user := range int64(8) {
		var nos []ids.ID
		for range 3 {
			no := ids.NewFor(user + 1)
			nos = append(nos, no)
			m.quantity[no] = rapid.Int32Range(1, 4).Draw(t, "quantity")
		}
		m.numbers = append(m.numbers, nos)
	}
	return m
}

func (m *model) attempt(t *rapid.T) Attempt {
	user := rapid.IntRange(0, len(m.numbers)-1).Draw(t, "user")
	no := rapid.SampledFrom(m.numbers[user]).Draw(t, "number")
	return Attempt{User: int64(user) + 1, No: no, Quantity: m.quantity[no]}
}

// decide is reserve.lua as plain Go.
func (m *model) decide(a Attempt) Result {
	held, ok := m.users[a.User]
	before, had := m.closed[a.User]
	switch {
	case ok && held.no == a.No:
		return Result{Verdict: Repeated, Seq: m.holds[a.No]}
	case m.gone[a.No] || had && before == a.No:
		return Result{Verdict: Finished}
	case ok:
		r := Result{Verdict: AlreadyBought, Other: held.no, Seq: m.holds[held.no]}
		if r.Seq != 0 {
			r.Quantity = held.quantity
		}
		return r
	case had:
		return Result{Verdict: AlreadyBought, Other: before}
	case a.Quantity > m.limit:
		return Result{Verdict: OverLimit}
	case m.unlimited || int64(a.Quantity) <= m.remaining:
		m.remaining -= int64(a.Quantity)
		m.seq++
		m.users[a.User] = mark{no: a.No, quantity: a.Quantity}
		m.holds[a.No] = m.seq
		return Result{Verdict: Granted, Seq: m.seq}
	case m.remaining > 0:
		return Result{Verdict: NotEnough}
	case m.committed >= m.total:
		return Result{Verdict: SoldOut}
	default:
		return Result{Verdict: AllHeld}
	}
}

func (m *model) reserve(t *rapid.T) {
	attempts := make([]Attempt, rapid.IntRange(1, 10).Draw(t, "batch"))
	for i := range attempts {
		attempts[i] = m.attempt(t)
	}
	epoch := m.epoch
	if rapid.IntRange(0, 9).Draw(t, "stale") == 0 {
		epoch--
	}
	got := m.b.reserve(m.item, epoch, attempts...)
	want := Decision{Epoch: m.epoch}
	switch {
	case epoch != m.epoch:
		want.Gate = Fenced
	case m.paused:
		want.Gate = Paused
	default:
		for _, a := range attempts {
			want.Results = append(want.Results, m.decide(a))
		}
	}
	want.Remaining, want.Committed, want.Total, want.Seq = m.remaining, m.committed, m.total, m.seq
	want.Persisted, want.Rel = m.persisted, m.rel
	if len(got.Results) == 0 {
		got.Results = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("decision on %v (-want +got):\n%s", attempts, diff)
	}
}

// inFlight is a grant that Postgres has not seen.
func (m *model) inFlight(t *rapid.T) (Attempt, bool) {
	var all []Attempt
	for user, held := range m.users {
		if m.orders[held.no] == nil {
			all = append(all, Attempt{User: user, No: held.no, Quantity: held.quantity})
		}
	}
	slices.SortFunc(all, func(a, b Attempt) int { return int(a.User - b.User) })
	if len(all) == 0 {
		return Attempt{}, false
	}
	return rapid.SampledFrom(all).Draw(t, "in flight"), true
}

func (m *model) write(t *rapid.T) {
	a, ok := m.inFlight(t)
	if !ok {
		return
	}
	m.b.write(m.item, m.epoch, a)
	m.available -= int64(a.Quantity)
	o := m.b.orders.set(a.No, orderevent.StatusPending)
	m.orders[a.No] = &o
	m.persist(a.No)
}

func (m *model) persist(no ids.ID) {
	if _, open := m.holds[no]; open {
		delete(m.holds, no)
		m.persisted++
	}
}

// persistAgain repeats what the writer says after a redelivery.
func (m *model) persistAgain(t *rapid.T) {
	var nos []ids.ID
	for no := range m.orders {
		nos = append(nos, no, no)
		m.persist(no)
	}
	nos = append(nos, ids.NewFor(99))
	if err := m.b.Persisted(m.b.t.Context(), m.item, m.epoch, nos); err != nil {
		t.Fatal(err)
	}
	if err := m.b.Persisted(m.b.t.Context(), m.item, m.epoch-1, nos); err != nil {
		t.Fatal(err)
	}
}

func (m *model) refuse(t *rapid.T) {
	a, ok := m.inFlight(t)
	if !ok {
		return
	}
	o := m.b.orders.put(m.item, a, m.epoch, orderevent.StatusRefused)
	m.orders[a.No] = &o
	m.released = append(m.released, o)
}

func (m *model) change(t *rapid.T) {
	var c Change
	if rapid.Bool().Draw(t, "add") {
		c.AddStock = new(rapid.Int32Range(1, 5).Draw(t, "units"))
		m.rowTotal += int64(*c.AddStock)
		m.available += int64(*c.AddStock)
	}
	if rapid.Bool().Draw(t, "pause or resume") {
		c.Paused = new(!m.rowPaused)
		m.rowPaused = *c.Paused
	}
	if rapid.Bool().Draw(t, "limit") {
		c.UserLimit = new(rapid.Int32Range(1, 4).Draw(t, "new limit"))
		m.rowLimit = *c.UserLimit
	}
	m.b.inTx(func(tx pgx.Tx) error { return m.b.Change(m.b.t.Context(), tx, m.item.ID, c) })
	m.rowRev++
}

func (m *model) apply(t *rapid.T) {
	if err := m.b.Apply(m.b.t.Context(), m.item.ID); err != nil {
		t.Fatal(err)
	}
	m.applied()
}

func (m *model) applied() {
	if m.rowRev <= m.rev {
		return
	}
	if m.rowTotal > m.total {
		m.rel++
	}
	m.remaining += m.rowTotal - m.total
	m.rev, m.total, m.limit, m.paused = m.rowRev, m.rowTotal, m.rowLimit, m.rowPaused
}

// settle delivers everything that is on its way; then the books must be proved.
func (m *model) settle(t *rapid.T) {
	for _, o := range m.released {
		m.b.mustRelease(o)
	}
	for _, o := range m.committing {
		m.b.mustCommit(o)
	}
	m.apply(t)
}

// TestScriptsAgainstModel plays random histories of one item through the Service,
// with the books in Postgres beside Redis: Loads, lost data, refusals, releases of
// numbers that were never granted, events that come again and out of order,
// changes that are committed and not applied yet. It compares every field after
// each step. TestScriptsFollowTheirSpec plays the scripts alone, with arguments
// that the Service does not send.
func TestScriptsAgainstModel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.cfg.PublishDeadline = time.Millisecond
	id := rand.Int64N(1000)
	rapid.Check(t, func(t *rapid.T) {
		id++
		m := newModel(b, t, id)
		actions := map[string]func(*rapid.T){
			"": m.check, "reserve": m.reserve, "reserve again": m.reserve, "write": m.write, "refuse": m.refuse, "persist again": m.persistAgain,
			"pay": m.pay, "expire": m.expire, "release": m.deliverRelease, "release unknown": m.releaseUnknown,
			"commit": m.deliverCommit, "change": m.change, "apply": m.apply, "load": m.load, "stale load": m.staleLoad,
		}
		t.Repeat(maps.Clone(actions))
		m.settle(t)
	})
}
