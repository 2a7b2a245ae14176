package inventory

import (
	"fmt"
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
		return Result{Verdict: AlreadyBought, Other: held.no}
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

func (m *model) pending(t *rapid.T) *orderevent.Order {
	var all []*orderevent.Order
	for _, o := range m.orders {
		if o.Status == orderevent.StatusPending {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *orderevent.Order) int { return int(a.UserID - b.UserID) })
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(t, "order")
}

func (m *model) pay(t *rapid.T) {
	if o := m.pending(t); o != nil {
		*o = m.b.pay(o.No)
		m.committing = append(m.committing, *o)
	}
}

func (m *model) expire(t *rapid.T) {
	if o := m.pending(t); o != nil {
		*o = m.b.close(o.No)
		m.available += int64(o.Quantity)
		m.released = append(m.released, *o)
	}
}

// take draws an event; half of the time it stays to be delivered once more.
func take(t *rapid.T, events *[]orderevent.Order) (orderevent.Order, bool) {
	if len(*events) == 0 {
		return orderevent.Order{}, false
	}
	i := rapid.IntRange(0, len(*events)-1).Draw(t, "event")
	o := (*events)[i]
	if rapid.Bool().Draw(t, "last delivery") {
		*events = slices.Delete(*events, i, i+1)
	}
	return o, true
}

func (m *model) deliverRelease(t *rapid.T) {
	o, ok := take(t, &m.released)
	if !ok {
		return
	}
	batch := []orderevent.Order{o}
	if rapid.Bool().Draw(t, "twice in one event") {
		batch = append(batch, o)
	}
	if err := m.b.release(m.b.t.Context(), m.item, batch); err != nil {
		t.Fatal(err)
	}
	m.gone[o.No] = true
	m.persist(o.No)
	if held := m.users[o.UserID]; held.no == o.No {
		m.remaining += int64(held.quantity)
		m.rel++
		if held.paid {
			m.committed -= int64(held.quantity)
		}
		delete(m.users, o.UserID)
		if !m.rebuy && o.Status == orderevent.StatusClosed {
			m.closed[o.UserID] = o.No
		}
	}
}

// releaseUnknown releases a number that was never granted: from then on it must
// not be.
func (m *model) releaseUnknown(t *rapid.T) {
	a := m.attempt(t)
	if m.orders[a.No] != nil || m.users[a.User].no == a.No {
		return
	}
	o := m.b.orders.put(m.item, a, m.epoch, orderevent.StatusRefused)
	m.orders[a.No] = &o
	m.b.mustRelease(o)
	m.gone[a.No] = true
}

func (m *model) deliverCommit(t *rapid.T) {
	o, ok := take(t, &m.committing)
	if !ok {
		return
	}
	if err := m.b.commit(m.b.t.Context(), m.item, []orderevent.Order{o, o}); err != nil {
		t.Fatal(err)
	}
	if held := m.users[o.UserID]; held.no == o.No && !held.paid {
		held.paid = true
		m.users[o.UserID] = held
		m.committed += int64(held.quantity)
	}
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

// load makes Redis what Postgres says: grants that Postgres has not seen are
// forgotten, numbers that have ended are remembered.
func (m *model) load(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "lose Redis") == 0 {
		if err := m.b.rdb.FlushDB(m.b.t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		m.rel = -1
	}
	m.b.load(m.item)
	m.epoch = m.b.state(m.item).Epoch
	m.rev, m.total, m.limit, m.paused = m.rowRev, m.rowTotal, m.rowLimit, m.rowPaused
	m.remaining, m.committed, m.seq, m.persisted = m.available, 0, 0, 0
	m.rel++
	m.users, m.holds, m.gone, m.closed = map[int64]mark{}, map[ids.ID]int64{}, map[ids.ID]bool{}, map[int64]ids.ID{}
	for no, o := range m.orders {
		if !live(o.Status) {
			m.gone[no] = true
			if !m.rebuy && o.Status == orderevent.StatusClosed {
				m.closed[o.UserID] = no
			}
			continue
		}
		paid := o.Status == orderevent.StatusPaid
		m.users[o.UserID] = mark{no: no, quantity: o.Quantity, paid: paid}
		if paid {
			m.committed += int64(o.Quantity)
		}
	}
}

// staleLoad is a Load that slept: it must change nothing.
func (m *model) staleLoad(*rapid.T) {
	st := Stock{Key: Key{ItemID: m.item.ID}, ActivityID: m.item.ActivityID, Total: 99, Available: 99, UserLimit: 9}
	err := m.b.Service.write(m.b.t.Context(), fenced{epoch: m.epoch - 1, old: map[Key]int64{st.Key: m.epoch - 2}}, st, itemBooks{stocks: []Stock{st}})
	mustFail(m.b.t, err, ErrBusy)
}

func (m *model) check(t *rapid.T) {
	ctx := m.b.t.Context()
	st := m.b.state(m.item)
	got := fmt.Sprintf("epoch %d rev %d total %d remaining %d committed %d seq %d persisted %d rel %d limit %d paused %v rebuy %v fenced %v",
		st.Epoch, st.Rev, st.Total, st.Remaining, st.Committed, st.Seq, st.Persisted, st.Rel, st.Limit, st.Paused, st.Rebuy, st.Fenced)
	want := fmt.Sprintf("epoch %d rev %d total %d remaining %d committed %d seq %d persisted %d rel %d limit %d paused %v rebuy %v fenced false",
		m.epoch, m.rev, m.total, m.remaining, m.committed, m.seq, m.persisted, m.rel, m.limit, m.paused, m.rebuy)
	if got != want {
		t.Fatalf("state\n got %s\nwant %s", got, want)
	}
	users, holds, gone := map[int64]string{}, map[string]int64{}, map[string]bool{}
	for user, held := range m.users {
		users[user] = held.String()
	}
	for user, no := range m.closed {
		users[user] = no.String() + ":x"
	}
	for no, seq := range m.holds {
		holds[no.String()] = seq
	}
	for no := range m.gone {
		gone[no.String()] = true
	}
	if diff := cmp.Diff(users, readUsers(m.b, m.item, m.epoch)); diff != "" {
		t.Fatalf("users (-want +got):\n%s", diff)
	}
	gotHolds := map[string]int64{}
	err := m.b.scan(ctx, m.item.holdsKey(m.epoch), func(no, value string) (bool, error) {
		h, err := parseOpenHold(value)
		gotHolds[no] = h.seq
		return true, err
	})
	if diff := cmp.Diff(holds, gotHolds); err != nil || diff != "" {
		t.Fatalf("holds %v (-want +got):\n%s", err, diff)
	}
	gotGone := map[string]bool{}
	for _, no := range m.b.rdb.ZRange(ctx, m.item.goneKey(m.epoch), 0, -1).Val() {
		if no != weight {
			gotGone[no] = true
		}
	}
	if diff := cmp.Diff(gone, gotGone); diff != "" {
		t.Fatalf("gone (-want +got):\n%s", diff)
	}
	if !m.unlimited && m.remaining < 0 {
		t.Fatalf("oversold: %d remain", m.remaining)
	}
}

func readUsers(b *bundle, item Item, epoch int64) map[int64]string {
	b.t.Helper()
	found := map[int64]string{}
	for user, value := range b.rdb.HGetAll(b.t.Context(), item.usersKey(epoch)).Val() {
		if user == weightField {
			continue
		}
		var id int64
		if _, err := fmt.Sscan(user, &id); err != nil {
			b.t.Fatal(err)
		}
		found[id] = value
	}
	return found
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

// TestScriptsAgainstModel plays random histories of one item, with Loads, lost
// data, repeated and reordered events, and compares every field after each step.
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
