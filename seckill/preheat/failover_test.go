package preheat

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
)

// An unreadable item does not keep other items from being loaded, and is logged
// once per check.
func TestAnItemThatCannotBeReadKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	i := setup(t, func(deps *Deps) { deps.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	all := []*catalogue.Item{i.publish(-time.Minute), i.publish(-time.Minute), i.publish(-time.Minute)}
	for _, it := range all[:2] { // the first ones to be checked
		// A string in place of the hash: as unreadable as on a node that is
		// down.
		require.NoError(t, i.Redis.Set(t.Context(), fmt.Sprintf("{g:i%d:0}:%d:state", it.ID, it.ID), "", 0).Err())
	}
	log.Reset()
	i.checked()
	require.Equal(t, "epoch of the readable item", i.epoch(all[2]), 1)
	i.sql(`UPDATE inventory.stock SET total = total + 3, available = available + 3, rev = rev + 1 WHERE item_id = $1`, all[2].ID)
	i.checked()
	if st, ok := i.state(all[2]); !ok || !st.Ready() || st.Remaining != 13 {
		t.Errorf("a change did not reach the readable item: %+v", st)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings in two checks:\n%s", n, &log)
	}
}

// Redis failed over and back within seconds, and its state is from before the
// last Load.
func TestAnItemBackAtAnOlderLoadIsLoaded(t *testing.T) {
	t.Parallel()
	i := setup(t)
	item := i.publish(-time.Minute)
	i.Load(item)
	old := map[string]string{}
	for _, key := range i.Redis.Keys(t.Context(), "{g:i*").Val() {
		old[key] = i.Redis.Dump(t.Context(), key).Val()
	}
	i.Load(item)
	for key, dump := range old {
		require.NoError(t, i.Redis.RestoreReplace(t.Context(), key, 0, dump).Err())
	}
	if n := i.epoch(item); n != 1 {
		t.Fatalf("epoch %d is not the old one", n)
	}
	// Nothing else requests a Load: the old Load answered the publication's
	// request.
	i.sql(`UPDATE seckill.items SET load_done = load_wanted`)
	defer i.Run(i.svc.Run)()
	pgtest.Eventually(t, 3*checkEvery, func() bool { return i.epoch(item) == 3 }, "the item to be loaded")
}
