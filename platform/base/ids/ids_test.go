package ids_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

// The bucket determines a row's partition, so it can never change.
func TestBucketIsGolden(t *testing.T) {
	t.Parallel()
	for user, want := range map[int64]int16{1: 405, 2: 432, 42: 851, 1_000_000: 542, 9_007_199_254_740_993: 614} {
		require.Equal(t, "bucket", ids.Bucket(user), want)
	}
}

func TestNumbersCarryTheirBucketTimeAndVersion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		user := rapid.Int64Min(1).Draw(t, "user")
		before := time.Now().Truncate(time.Millisecond)
		id := ids.NewFor(user)
		require.Equal(t, "bucket", id.Bucket(), ids.Bucket(user))
		if at := id.Time(); at.Before(before) || at.After(time.Now()) {
			t.Fatalf("time %s is not now", at)
		}
		require.Equal(t, "version and variant", fmt.Sprint(id[6]>>4, id[8]>>6), "7 2")
		back, err := ids.Parse(id.String())
		require.Equal(t, "parsed", fmt.Sprint(back, err), fmt.Sprint(id, nil))
	})
}

func TestTaggedNumbersCarryTheirTagAndTheCallersTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		user, tag := rapid.Int64Min(1).Draw(t, "user"), rapid.Uint16().Draw(t, "tag")
		at := time.UnixMilli(rapid.Int64Range(1, 1<<48-1).Draw(t, "at")).UTC()
		id := ids.NewTagged(user, tag, at)
		if id.Tag() != tag || id.Bucket() != ids.Bucket(user) || !id.Time().Equal(at) || id[6]>>4 != 7 || id[8]>>6 != 2 {
			t.Fatalf("%s: tag %d, bucket %d, time %s; want %d, %d, %s", id, id.Tag(), id.Bucket(), id.Time(), tag, ids.Bucket(user), at)
		}
		require.Equal(t, "the same number twice", ids.NewTagged(user, tag, at) == id, false)
	})
}

func TestParseRefusesInvalidNumbers(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "0190", "0190A0B0C0D0E0F00190a0b0c0d0e0f0", "zz90a0b0c0d0e0f00190a0b0c0d0e0f0", "0190a0b0-c0d0-e0f0-0190-a0b0c0d0e0f0"} {
		id, err := ids.Parse(s)
		require.Equal(t, fmt.Sprintf("%q is refused, not parsed as %s", s, id), err != nil, true)
	}
}

func BenchmarkNewFor(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_ = ids.NewFor(42)
	}
}
