package order

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stampede/inventory"
	"stampede/order/orderevent"
	"stampede/platform/ids"
	"stampede/seckill/seckillevent"
)

// model is the writer's rules in their shortest form: one entry at a time, in
// stream order, nothing set-wise.
type model struct {
	rows  map[ids.ID]string // status, or status/reason
	live  map[userOf]ids.ID
	units map[int64]int32 // left per item
	epoch map[int64]int64
	done  map[ids.ID]bool // messages
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
		case b.Epoch < m.epoch[b.ItemID]:
			m.rows[g.No] = "refused/interrupted"
		case taken:
			m.rows[g.No] = "refused/duplicate"
		case m.units[b.ItemID] < g.Quantity:
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

func (m *model) close(b *seckillevent.Batch, g seckillevent.Grant) {
	if m.rows[g.No] != "pending_payment" {
		return
	}
	m.rows[g.No] = "closed/timeout"
	m.units[b.ItemID] += g.Quantity
	for _, of := range claims(b, g.User) {
		delete(m.live, of)
	}
}

// TestWriterFollowsTheModel sends random messages, repeated, republished and
// too many, in random fetches, with Loads and closings in between, and compares
// every row and every unit with the model's.
func TestWriterFollowsTheModel(t *testing.T) {
	t.Parallel()
	s := setup(t)
	user := int64(0)
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{rows: map[ids.ID]string{}, live: map[userOf]ids.ID{}, units: map[int64]int32{}, epoch: map[int64]int64{}, done: map[ids.ID]bool{}}
		// Two items of one activity that allows one, and two that are free.
		var items []*seckillevent.Batch
		activity := 1_000_000 + s.nextItem
		for i := range 4 {
			units := int32(rapid.IntRange(0, 8).Draw(rt, "units"))
			b := s.item(units, func(n *inventory.NewStock) {
				if i < 2 {
					n.ActivityID, n.PerActivity = activity, true
				}
			})
			m.units[b.ItemID] = units
			items = append(items, b)
		}
		base := user
		user += 6 // each run has users of its own
		var sent []*seckillevent.Batch
		for range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			var fetch []*seckillevent.Batch
			for range rapid.IntRange(1, 3).Draw(rt, "messages") {
				if len(sent) > 0 && rapid.IntRange(0, 3).Draw(rt, "repeat") == 0 {
					b := rapid.SampledFrom(sent).Draw(rt, "which")
					if rapid.Bool().Draw(rt, "republished") {
						b = again(b)
					}
					fetch = append(fetch, b)
					continue
				}
				item := rapid.SampledFrom(items).Draw(rt, "item")
				var users []int64
				for range rapid.IntRange(1, 6).Draw(rt, "grants") {
					users = append(users, base+rapid.Int64Range(1, 6).Draw(rt, "user"))
				}
				b := grants(item, users...)
				for i := range b.Grants {
					b.Grants[i].Quantity = int32(rapid.SampledFrom([]int{1, 1, 1, 2, 5}).Draw(rt, "quantity"))
				}
				b.Epoch = m.epoch[b.ItemID]
				if b.Epoch > 0 && rapid.IntRange(0, 4).Draw(rt, "late") == 0 {
					b.Epoch--
				}
				fetch = append(fetch, b)
				sent = append(sent, b)
			}
			s.deliver(fetch...)
			for _, b := range fetch {
				m.deliver(b)
			}
			switch b := rapid.SampledFrom(sent).Draw(rt, "then"); rapid.IntRange(0, 2).Draw(rt, "what") {
			case 0: // a Load
				m.epoch[b.ItemID]++
				s.exec(`UPDATE inventory.stock SET epoch = epoch + 1 WHERE item_id = $1`, b.ItemID)
			case 1: // a deadline
				s.exec(`UPDATE orders.orders SET closing_until = now() + interval '1 hour' WHERE order_no = ANY($1)`, numbers(b))
				if _, err := s.CloseClaimed(t.Context(), numbers(b), orderevent.ReasonTimeout); err != nil {
					rt.Fatal(err)
				}
				for _, g := range b.Grants {
					m.close(b, g)
				}
			}
		}
		for _, b := range sent {
			for i, got := range s.statuses(numbers(b)...) {
				if want := m.rows[b.Grants[i].No]; got != want {
					rt.Fatalf("item %d, user %d, %d units: %q, the model says %q", b.ItemID, b.Grants[i].User, b.Grants[i].Quantity, got, want)
				}
			}
		}
		for item, want := range m.units {
			if got := s.available(item); got != want {
				rt.Fatalf("item %d has %d units, the model says %d", item, got, want)
			}
		}
	})
	// Every row has exactly one first event, and every closing one.
	for subject, status := range map[string]string{orderevent.SubjectRefused: "refused", orderevent.SubjectClosed: "closed"} {
		events := s.events()[subject]
		seen := map[ids.ID]bool{}
		for _, o := range events {
			if seen[o.No] {
				t.Errorf("%s twice for %s", subject, o.No)
			}
			seen[o.No] = true
		}
		requireEqual(t, subject, len(events), s.count(`SELECT count(*) FROM orders.orders WHERE status = $1`, status))
	}
	requireEqual(t, orderevent.SubjectCreated, len(s.events()[orderevent.SubjectCreated]), s.count(`SELECT count(*) FROM orders.orders WHERE status <> 'refused'`))
}

// TestRationFollowsTheModel is the slow path alone, without a database, and so
// with far more cases.
func TestRationFollowsTheModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{rows: map[ids.ID]string{}, live: map[userOf]ids.ID{}, units: map[int64]int32{}, epoch: map[int64]int64{}, done: map[ids.ID]bool{}}
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
