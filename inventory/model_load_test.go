package inventory

import (
	"fmt"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stampede/order/orderevent"
	"stampede/platform/ids"
)

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
