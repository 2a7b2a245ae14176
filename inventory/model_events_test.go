package inventory

import (
	"slices"

	"pgregory.net/rapid"

	"stampede/order/orderevent"
)

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
