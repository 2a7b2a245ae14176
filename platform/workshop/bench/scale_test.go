package bench

import (
	"strings"
	"testing"
)

// drawn is a report like that of a run.
func drawn() *ScaleReport {
	r := &ScaleReport{Million: &MillionReport{
		Shoppers: 1_000_000, Units: 10_000, Granted: 10_000, Orders: 10_000, BooksProved: true,
		Seconds: 20, VisibleAfter: 2, Refusals: 19, PeakMiB: 210,
	}}
	for i, n := range []int{1_000, 10_000, 100_000} {
		r.Shoppers = append(r.Shoppers, ScalePoint{Shoppers: n, Items: 1, Units: n / 100, Sales: 1, Attempts: n, Server: 20, All: 25 - float64(i)})
		r.Items = append(r.Items, ScalePoint{Shoppers: 100_000, Items: n / 1000, Units: 1000, Sales: 1, Attempts: n, Server: 20, All: 62})
	}
	return r
}

func TestScaleReportMarksMissedTargets(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*MillionReport){
		"":                        func(*MillionReport) {},
		"SHORT 9999 units":        func(m *MillionReport) { m.Granted-- },
		"SHORT 10000 units":       func(m *MillionReport) { m.BooksProved = false },
		"SHORT every winner":      func(m *MillionReport) { m.VisibleAfter = 25 },
		"SHORT peak memory of th": func(m *MillionReport) { m.PeakMiB = 301 },
	} {
		r := drawn()
		change(r.Million)
		var b strings.Builder
		if err := r.Write(&b); err != nil {
			t.Fatal(err)
		}
		if short := strings.Contains(b.String(), "SHORT"); short != (want != "") || !strings.Contains(b.String(), want) || r.Million.OK() != (want == "") {
			t.Errorf("want %q:\n%s", want, b.String())
		}
	}
}

func TestSaleHasUnitsForEveryItem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ shoppers, items, units int }{
		{1_000, 1, 10}, {1_000_000, 1, 10_000}, {100_000, 1_000, 1_000}, {1_000, 100, 100}, {10, 1, 1},
	} {
		if got := (sale{shoppers: c.shoppers, items: c.items}).units(); got != c.units {
			t.Errorf("%d shoppers, %d items: %d units, want %d", c.shoppers, c.items, got, c.units)
		}
	}
}
