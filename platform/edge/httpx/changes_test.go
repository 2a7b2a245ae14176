package httpx

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"stampede/platform/workshop/require"
)

// numbered are the rows n to 1, read as a list by descending ids, which counts them.
func numbered(n int, reads *int) func(PageInput) ([]int, error) {
	return func(p PageInput) ([]int, error) {
		before, err := p.BeforeID()
		if before == 0 {
			before = int64(n) + 1
		}
		rows := []int{}
		for id := int(before) - 1; id > 0 && len(rows) < p.Ask(); id-- {
			rows = append(rows, id)
		}
		*reads += len(rows)
		return rows, err
	}
}

func at(minute int) time.Time { return time.Unix(0, 0).Add(time.Duration(minute) * time.Minute) }

func same(i int) int { return i }

// Pages hold what changed, whatever lies between, read a bounded number of rows, and
// together miss nothing.
func TestPageOfChanges(t *testing.T) {
	t.Parallel()
	odd := func(i int) time.Time { return at(i % 2) }
	for _, c := range []struct {
		name    string
		rows    int
		changed func(int) time.Time
		from    time.Time
		want    func(int) bool
		pages   int
	}{
		{"without the filter", 45, at, time.Time{}, func(int) bool { return true }, 3},
		{"a whole number of pages", 40, at, time.Time{}, func(int) bool { return true }, 2},
		{"none", 0, at, time.Time{}, nil, 1},
		{"all", 40, at, at(0), func(int) bool { return true }, 2},
		{"the newest", 45, at, at(30), func(i int) bool { return i >= 30 }, 1},
		{"every second", 60, odd, at(1), func(i int) bool { return i%2 == 1 }, 2},
		{"the last of many", 12_000, func(i int) time.Time { return at(-i) }, at(-1), func(i int) bool { return i == 1 }, 3},
		{"nothing of many", 12_000, at, at(1_000_000), func(int) bool { return false }, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []int
			in, pages := ChangesInput{PageInput: PageInput{Limit: 20}, UpdatedFrom: c.from}, 0
			for {
				reads := 0
				out, err := PageOfChanges(in, numbered(c.rows, &reads), c.changed, same, strconv.Itoa)
				require.NoError(t, err)
				if n := len(out.Body.Data); n > in.Limit || reads > maxRead+20 {
					t.Errorf("a page of %d rows, for which %d were read", n, reads)
				}
				got = append(got, out.Body.Data...)
				if pages++; out.Body.NextCursor == "" {
					break
				}
				in.Cursor = out.Body.NextCursor
			}
			var want []int
			for i := c.rows; i > 0; i-- {
				if c.want(i) {
					want = append(want, i)
				}
			}
			if !slices.Equal(got, want) || pages != c.pages {
				t.Errorf("%d rows on %d pages, want %d on %d: %.200v", len(got), pages, len(want), c.pages, got)
			}
		})
	}
	in := ChangesInput{PageInput: PageInput{Limit: 20, Cursor: "x"}}
	_, err := PageOfChanges(in, numbered(3, new(int)), at, same, strconv.Itoa)
	require.ErrorIs(t, err, ErrCursor)
}

// A list of what never changes ends where it is older, give or take the difference of
// clocks.
func TestMadeSince(t *testing.T) {
	t.Parallel()
	rows := []int{50, 31, 29, 30, 28, 40}
	require.Equal(t, "rows made since", MadeSince(rows, at(30), at), rows[:4])
	require.Equal(t, "rows made since any time", MadeSince(rows, time.Time{}, at), rows)
}
