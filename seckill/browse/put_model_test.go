package browse

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// TestViewsFollowTheirModel compares put.lua with its model: the view has the
// fields and the expiry of the last put that was not older than the view at
// that time, and nothing of any other.
func TestViewsFollowTheirModel(t *testing.T) {
	t.Parallel()
	rdb := pgtest.Redis(t)
	ctx := t.Context()
	rapid.Check(t, func(rt *rapid.T) {
		const key = "view"
		require.NoError(rt, rdb.Del(ctx, key).Err())
		want, until, rev := map[string]string{}, time.Duration(0), int64(0)
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				r := rapid.Int64Range(1, 12).Draw(rt, "revision")
				ends := rapid.Int64Range(1, 100).Draw(rt, "hours")
				at := time.Now().Add(time.Duration(ends) * time.Hour)
				args, fields := []any{r, at.UnixMilli()}, map[string]string{"rev": strconv.FormatInt(r, 10)}
				for range rapid.IntRange(1, 4).Draw(rt, "fields") {
					name := "i:" + strconv.Itoa(rapid.IntRange(1, 5).Draw(rt, "field"))
					value := rapid.StringN(0, 8, 32).Draw(rt, "value")
					args, fields[name] = append(args, name, value), value
				}
				written, err := putScript.Run(ctx, rdb, []string{key}, args...).Int()
				require.NoError(rt, err)
				newer := r >= rev
				if newer {
					want, until, rev = fields, time.Duration(ends)*time.Hour, r
				}
				if (written == 1) != newer {
					rt.Fatalf("revision %d over %d answers %d", r, rev, written)
				}
			},
			"forgotten": func(*rapid.T) {
				rdb.Del(ctx, key)
				want, until, rev = map[string]string{}, 0, 0
			},
			"": func(rt *rapid.T) {
				if diff := cmp.Diff(want, rdb.HGetAll(ctx, key).Val()); diff != "" {
					rt.Fatalf("view (-want +got):\n%s", diff)
				}
				if left := rdb.PTTL(ctx, key).Val(); rev > 0 && (left > until || left < until-time.Minute) {
					rt.Fatalf("the view is kept for %v, want %v", left, until)
				}
			},
		})
	})
}
