package seckill

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a source whose readings are numbered.
func counted(readings *int) func() source {
	return func() source {
		return func(context.Context) (reading, error) {
			*readings++
			n := strconv.Itoa(*readings)
			return reading{func() []byte { return []byte("whole " + n) }, []byte("change " + n)}, nil
		}
	}
}

// Two who follow the same cost one reading a second, and none once both have left.
func TestFollowersShareReadings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all follows
		this, readings, others := subject{"funnel", 1}, 0, 0
		one, err := all.join(t.Context(), this, counted(&readings))
		if err != nil {
			t.Fatal(err)
		}
		leaving, cancel := context.WithCancel(t.Context())
		two, err := all.join(leaving, this, counted(&readings))
		if err != nil || two != one || readings != 1 {
			t.Fatalf("%v after %d readings", err, readings)
		}
		other, err := all.join(t.Context(), subject{"funnel", 2}, counted(&others))
		if err != nil || other == one {
			t.Fatalf("another subject: %v", err)
		}
		_, _, renewed, _ := one.now()
		<-renewed
		synctest.Wait()
		if latest, number, _, _ := two.now(); number != 2 || readings != 2 || string(latest.change) != "change 2" || string(latest.whole()) != "whole 2" {
			t.Errorf("reading %d of %d: %s", number, readings, latest.change)
		}
		cancel()
		all.leave(this, one)      // the first leaves, the second stays
		time.Sleep(2 * liveEvery) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		if readings != 4 {
			t.Errorf("%d readings for the one who stayed, want 4", readings)
		}
		all.leave(this, two)
		all.leave(subject{"funnel", 2}, other)
		time.Sleep(2 * liveEvery) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		if readings != 4 || len(all.of) != 0 {
			t.Errorf("%d readings and %d subjects after the last has left", readings, len(all.of))
		}
	})
}

// A first reading that fails is told to those who wait for it, and tried by the next;
// a later one is left out.
func TestFollowersOfAFailedReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all follows
		broken, this, readings := errors.New("no such thing"), subject{"funnel", 1}, 0
		if _, err := all.join(t.Context(), this, func() source {
			return func(context.Context) (reading, error) { return reading{}, broken }
		}); !errors.Is(err, broken) || len(all.of) != 0 {
			t.Fatalf("%v, %d subjects", err, len(all.of))
		}
		one, err := all.join(t.Context(), this, func() source {
			return func(ctx context.Context) (reading, error) {
				if readings++; readings == 2 {
					return reading{}, broken
				}
				return counted(new(int))()(ctx)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*liveEvery + liveEvery/2) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		if _, number, _, err := one.now(); number != 2 || readings != 3 || err != nil {
			t.Errorf("%d of %d readings: %v", number, readings, err)
		}
		all.leave(this, one)
	})
}
