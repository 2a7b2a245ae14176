package order

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/seckill/seckillevent"
)

// model is the writer's rules in their shortest form: one entry at a time, in
// stream order, nothing set-wise.
type model struct {
	rows  map[ids.ID]string // status, or status/reason
	live  map[userOf]ids.ID
	units map[int64]int32 // left per item; below 0 for unlimited items
	epoch map[int64]int64
	done  map[ids.ID]bool // messages

	unlimited, unknown map[int64]bool // items: never short; without a stock row
}

func newModel() *model {
	return &model{
		rows: map[ids.ID]string{}, live: map[userOf]ids.ID{}, units: map[int64]int32{}, epoch: map[int64]int64{}, done: map[ids.ID]bool{},
		unlimited: map[int64]bool{}, unknown: map[int64]bool{},
	}
}

func (m *model) deliver(b *seckillevent.Batch) {
	if m.done[b.ID] {
		return
	}
	m.done[b.ID] = true
	for _, g := range b.Grants {
		if _, known := m.rows[g.No]; known {
			continue
		}
		taken := false
		for _, of := range claims(b, g.User) {
			_, has := m.live[of]
			taken = taken || has
		}
		switch {
		case m.unknown[b.ItemID], b.Epoch < m.epoch[b.ItemID]:
			m.rows[g.No] = "refused/interrupted"
		case taken:
			m.rows[g.No] = "refused/duplicate"
		case m.units[b.ItemID] < g.Quantity && !m.unlimited[b.ItemID]:
			m.rows[g.No] = "refused/shortfall"
		default:
			m.rows[g.No] = "pending_payment"
			m.units[b.ItemID] -= g.Quantity
			for _, of := range claims(b, g.User) {
				m.live[of] = g.No
			}
		}
	}
}

// pay and close are the two outcomes of an order that waits for payment; they report
// whether it did.
func (m *model) pay(g seckillevent.Grant) bool {
	pending := m.rows[g.No] == "pending_payment"
	if pending {
		m.rows[g.No] = "paid"
	}
	return pending
}

func (m *model) close(b *seckillevent.Batch, g seckillevent.Grant) bool {
	if m.rows[g.No] != "pending_payment" {
		return false
	}
	m.rows[g.No] = "closed/timeout"
	m.units[b.ItemID] += g.Quantity
	for _, of := range claims(b, g.User) {
		delete(m.live, of)
	}
	return true
}

// TestRationFollowsTheModel tests the slow path alone, without a database, and
// so with far more cases.
func TestRationFollowsTheModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel()
		available := map[inventory.Key]int32{}
		var batches []*seckillevent.Batch
		var entries []entry
		known, taken := map[ids.ID]bool{}, map[userOf]bool{}
		for i := range rapid.IntRange(1, 5).Draw(rt, "messages") {
			b := &seckillevent.Batch{
				ID: ids.New(), ItemID: rapid.Int64Range(1, 3).Draw(rt, "item"), ActivityID: 1, PerActivity: rapid.Bool().Draw(rt, "one"),
			}
			// A rule belongs to an item, not to a message.
			b.PerActivity = b.ItemID != 3
			for range rapid.IntRange(0, 8).Draw(rt, "grants") {
				user := rapid.Int64Range(1, 5).Draw(rt, "user")
				b.Grants = append(b.Grants, seckillevent.Grant{No: ids.NewFor(user), User: user, Quantity: rapid.Int32Range(1, 4).Draw(rt, "quantity")})
			}
			if _, ok := m.units[b.ItemID]; !ok {
				units := rapid.Int32Range(0, 6).Draw(rt, "units")
				m.units[b.ItemID], available[inventory.Key{ItemID: b.ItemID}] = units, units
			}
			batches = append(batches, b)
			for j := range b.Grants {
				g := &b.Grants[j]
				switch rapid.IntRange(0, 9).Draw(rt, "history") {
				case 0:
					known[g.No], m.rows[g.No] = true, "known"
				case 1:
					for _, of := range claims(b, g.User) {
						taken[of], m.live[of] = true, ids.New()
					}
				}
				entries = append(entries, entry{grant: g, from: i})
			}
		}
		for _, b := range batches {
			m.deliver(b)
		}
		accepted, refused := ration(entries, batches, known, taken, available)
		got := map[ids.ID]string{}
		for _, e := range accepted {
			got[e.grant.No] = "pending_payment"
		}
		for _, e := range refused {
			got[e.grant.No] = "refused/" + e.reason
		}
		for no := range known {
			got[no] = "known"
		}
		if diff := cmp.Diff(m.rows, got); diff != "" {
			rt.Fatal(diff)
		}
		for item, units := range m.units {
			if left := available[inventory.Key{ItemID: item}]; left != units || left < 0 {
				rt.Fatal(fmt.Sprintf("item %d has %d units left, the model says %d", item, left, units))
			}
		}
	})
}
