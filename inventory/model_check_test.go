package inventory

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// check compares every key in Redis with the spec's.
func (s *model) check(t *rapid.T) {
	ctx := s.t.Context()
	known := map[string]bool{s.items[0].item.buyersKey(): true}
	for _, it := range s.items {
		if !it.loaded {
			continue
		}
		known[it.item.stateKey()] = true
		for _, key := range it.item.epochKeys(it.epoch) {
			known[key] = true
		}
		holds := map[string]string{}
		for no, h := range it.holds {
			holds[no.String()] = fmt.Sprint(h)
		}
		users, gone := map[string]string{}, map[string]bool{} // gone: whether for good
		for user, m := range it.users {
			users[strconv.FormatInt(user, 10)] = m.String()
		}
		for no, is := range it.gone {
			gone[no.String()] = is == takenUp
		}
		s.same(t, it, "state", it.state(s.run, s.now), s.rdb.HGetAll(ctx, it.item.stateKey()).Val())
		s.same(t, it, "users", users, s.hash(t, it.item.usersKey(it.epoch), !it.noUsers))
		got := s.hash(t, it.item.holdsKey(it.epoch), !it.noHolds)
		for no, value := range got {
			h, err := parseOpenHold(value)
			if err != nil || h.at.Before(time.UnixMilli(s.now).Add(-time.Minute)) || h.at.After(time.UnixMilli(s.now).Add(10*time.Minute)) {
				t.Fatalf("hold %s: %v", value, err)
			}
			got[no] = fmt.Sprint(specHold{user: h.user, quantity: h.quantity, seq: h.seq, within: h.within})
		}
		s.same(t, it, "holds", holds, got)
		tombs := map[string]bool{}
		for _, z := range s.rdb.ZRangeWithScores(ctx, it.item.tombstonesKey(it.epoch), 0, -1).Val() {
			tombs[fmt.Sprint(z.Member)] = math.IsInf(z.Score, 1)
		}
		if len(tombs) > 0 && !tombs[weight] {
			t.Fatalf("item %d: its tombstones may be packed", it.item.ID)
		}
		delete(tombs, weight)
		s.same(t, it, "gone", gone, tombs)
	}
	buyers := map[string]string{}
	for user, b := range s.buyers {
		buyers[strconv.FormatInt(user, 10)] = mark{no: b.no, closed: b.closed}.buyer(b.item)
	}
	s.same(t, s.items[0], "buyers", buyers, s.hash(t, s.items[0].item.buyersKey(), false))
	for _, key := range s.rdb.Keys(ctx, "*").Val() {
		if !known[key] {
			t.Fatalf("%s was not removed", key)
		}
	}
}

// hash reads a hash without its weight field, which must be there if weighted.
func (s *model) hash(t *rapid.T, key string, weighted bool) map[string]string {
	all := s.rdb.HGetAll(s.t.Context(), key).Val()
	if _, ok := all[weightField]; weighted && !ok {
		t.Fatalf("%s may be packed", key)
	}
	delete(all, weightField)
	return all
}

func (s *model) same(t *rapid.T, it *specItem, what string, want, got any) {
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("item %d, %s (-want +got):\n%s", it.item.ID, what, diff)
	}
}
