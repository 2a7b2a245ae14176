package funnel

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"stampede/platform/workshop/require"
)

// counted is a source whose readings are numbered.
func counted(readings *atomic.Int64) func() source[string] {
	return func() source[string] {
		return func(context.Context) (reading[string], error) {
			n := strconv.FormatInt(readings.Add(1), 10)
			return reading[string]{"whole " + n, []byte("change " + n)}, nil
		}
	}
}

// Two who follow the same cost one reading a second, and none once both have left.
func TestFollowersShareReadings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := follows[string]{log: slog.New(slog.DiscardHandler)}
		var readings, others atomic.Int64
		const this, that = 1, 2
		one, err := all.join(t.Context(), this, counted(&readings))
		require.NoError(t, err)
		leaving, cancel := context.WithCancel(t.Context())
		two, err := all.join(leaving, this, counted(&readings))
		if err != nil || two != one || readings.Load() != 1 {
			t.Fatalf("%v after %d readings", err, readings.Load())
		}
		other, err := all.join(t.Context(), that, counted(&others))
		if err != nil || other == one {
			t.Fatalf("another subject: %v", err)
		}
		_, _, renewed, _ := one.now()
		<-renewed
		synctest.Wait()
		if latest, number, _, _ := two.now(); number != 2 || readings.Load() != 2 || string(latest.change) != "change 2" || latest.whole != "whole 2" {
			t.Errorf("reading %d of %d: %s", number, readings.Load(), latest.change)
		}
		cancel()
		all.leave(this, one)      // the first leaves, the second stays
		time.Sleep(2 * liveEvery) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		require.Equal(t, "readings for the one who stayed", readings.Load(), 4)
		all.leave(this, two)
		all.leave(that, other)
		time.Sleep(2 * liveEvery) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		if readings.Load() != 4 || len(all.of) != 0 {
			t.Errorf("%d readings and %d subjects after the last has left", readings.Load(), len(all.of))
		}
	})
}

// A first reading that fails is the error of those who wait for it, and tried by the next;
// a later one, here a panic, is left out.
func TestFollowersOfAFailedReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := follows[string]{log: slog.New(slog.DiscardHandler)}
		const this = 1
		broken := errors.New("no such thing")
		var readings atomic.Int64
		if _, err := all.join(t.Context(), this, func() source[string] {
			return func(context.Context) (reading[string], error) { return reading[string]{}, broken }
		}); !errors.Is(err, broken) || len(all.of) != 0 {
			t.Fatalf("%v, %d subjects", err, len(all.of))
		}
		one, err := all.join(t.Context(), this, func() source[string] {
			return func(ctx context.Context) (reading[string], error) {
				if readings.Add(1) == 2 {
					panic(broken)
				}
				return counted(new(atomic.Int64))()(ctx)
			}
		})
		require.NoError(t, err)
		time.Sleep(2*liveEvery + liveEvery/2) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		if _, number, _, err := one.now(); number != 2 || readings.Load() != 3 || err != nil {
			t.Errorf("%d of %d readings: %v", number, readings.Load(), err)
		}
		all.leave(this, one)
	})
}
