package order

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// TestCacheFollowsItsModel compares the cache with the newest version put into
// it: put.lua with versions in any order, new orders on top of old entries, and
// foreign entries. A read returns the newest version or nothing, with the
// lifetime of the put that stored it.
func TestCacheFollowsItsModel(t *testing.T) {
	t.Parallel()
	s := setup(t)
	ctx := t.Context()
	rapid.Check(t, func(rt *rapid.T) {
		var nos []ids.ID
		for range 2 {
			nos = append(nos, ids.New())
		}
		newest := map[ids.ID]orderevent.Order{}
		strange := map[ids.ID]bool{} // the entry is not an order
		draw := func(rt *rapid.T) orderevent.Order {
			version := rapid.Int32Range(1, 5).Draw(rt, "version")
			return orderevent.Order{
				No: nos[rapid.IntRange(0, 1).Draw(rt, "order")], UserID: int64(version), Version: version, Title: "限量版\"跑鞋",
				PayDeadline: time.Unix(int64(version), 0).UTC(), CreatedAt: time.Unix(1, 0).UTC(), UpdatedAt: time.Unix(int64(version), 0).UTC(),
			}
		}
		note := func(o orderevent.Order) {
			if have, ok := newest[o.No]; !ok || have.Version < o.Version || strange[o.No] {
				newest[o.No] = o
			}
			strange[o.No] = false
		}
		several := func(rt *rapid.T) []orderevent.Order {
			list := make([]orderevent.Order, rapid.IntRange(1, 4).Draw(rt, "orders"))
			for i := range list {
				list[i] = draw(rt)
			}
			return list
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				list := several(rt)
				require.NoError(rt, s.cache.put(ctx, list))
				for _, o := range list {
					note(o)
				}
			},
			"fill": func(rt *rapid.T) {
				list := several(rt)
				if noRoom, err := s.cache.fill(ctx, list); err != nil || noRoom > 0 {
					rt.Fatal(noRoom, err)
				}
				for _, o := range list {
					note(o)
				}
			},
			"new": func(rt *rapid.T) {
				o := draw(rt)
				require.NoError(rt, s.cache.putNew(ctx, []orderevent.Order{o}, visibleByEvent))
				if _, ok := newest[o.No]; !ok && !strange[o.No] {
					newest[o.No] = o
				}
			},
			"strange": func(rt *rapid.T) {
				no := nos[rapid.IntRange(0, 1).Draw(rt, "order")]
				text := rapid.SampledFrom([]string{"", "[]", "{", `{"version":"x"}`, `7`, "o9", "o9x:", "o:"}).Draw(rt, "text")
				s.forget(ctx, no)
				require.NoError(rt, s.rdb.HSet(ctx, placeOf(no).keys()[rapid.IntRange(0, 1).Draw(rt, "hash")], string(no[:]), text).Err())
				delete(newest, no)
				strange[no] = true
			},
			"expired": func(rt *rapid.T) {
				no := nos[rapid.IntRange(0, 1).Draw(rt, "order")]
				s.forget(ctx, no)
				delete(newest, no)
				strange[no] = false
			},
			"": func(rt *rapid.T) {
				for _, no := range nos {
					want, has := newest[no]
					got, ok, err := s.cache.get(ctx, no)
					if err != nil || ok != has || ok && got != want {
						rt.Fatalf("%s is %+v, %v, %v, want %+v, %v", no, got, ok, err, want, has)
					}
				}
			},
		})
	})
}
