package load

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"stampede/inventory/stock"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// slowWriter is a bus whose queue is done after a time, and moves until then or not.
type slowWriter struct {
	stock.Grants
	until  time.Time
	moves  bool
	handed uint64
}

func (b *slowWriter) Done(context.Context, int64, uint64) (bool, error) {
	return !time.Now().Before(b.until), nil
}

func (b *slowWriter) State(context.Context) (bus.QueueState, error) {
	if b.moves {
		b.handed++
	}
	return bus.QueueState{Last: b.handed}, nil
}

// A Load that waits for a writer with much to write goes on for as long as the writer does.
func TestLoadEndsWithoutProgressOnly(t *testing.T) {
	t.Parallel()
	for name, moves := range map[string]bool{"the queue moves": true, "the queue stands": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const stall, backlog = 30 * time.Second, 10 * time.Minute
				s := &Service{Store: &stock.Store{Deps: stock.Deps{Grants: &slowWriter{until: time.Now().Add(backlog), moves: moves}}}}
				ctx, alive, end := watch(t.Context(), stall)
				defer end()
				began := time.Now()
				err := s.awaitWriter(ctx, 1, fenced{alive: alive})
				switch took := time.Since(began); {
				case moves && (err != nil || took < backlog):
					t.Errorf("ended after %s: %v", took, err)
				case !moves && (!errors.Is(context.Cause(ctx), ErrStalled) || took > 2*stall):
					t.Errorf("ended after %s: %v, cause %v", took, err, context.Cause(ctx))
				}
			})
		})
	}
}

// The same change of runs, seen again much later, is another one.
func TestRunChangesAreForgotten(t *testing.T) {
	t.Parallel()
	var r runs
	now := time.Now()
	c := runChange{"a", "b"}
	require.Equal(t, "first", r.first(c, now), now)
	require.Equal(t, "soon after", r.first(c, now.Add(time.Second)), now)
	require.Equal(t, "the way back", r.first(runChange{"b", "a"}, now.Add(time.Second)), now.Add(time.Second))
	later := now.Add(2 * runMemory)
	require.Equal(t, "again", r.first(c, later), later)
	require.Equal(t, "remembered", len(r.seen), 1)
}

func TestMain(m *testing.M) {
	pgtest.RapidChecks(50)
	pgtest.Main(m, func() error { return goleak.Find() })
}
