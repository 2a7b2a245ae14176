package demo

import (
	"slices"
	"testing"
	"time"

	"stampede/platform/workshop/loadgen"
)

// TestRestartKeepsPlannedSales checks that one sale for each opening of the
// schedule stays and the earlier process's others are withdrawn.
func TestRestartKeepsPlannedSales(t *testing.T) {
	t.Parallel()
	const every = 3 * time.Minute
	s := &Service{deps: Deps{Every: every, Stock: 300}}
	at := func(minute, second int) time.Time { return time.Date(2026, 5, 1, 20, minute, second, 0, time.UTC) }
	left := func(id string, opens time.Time, open time.Duration, stock int) loadgen.OpenSale {
		return loadgen.OpenSale{Planned: loadgen.Planned{ItemID: id}, OpensAt: opens, ClosesAt: opens.Add(open), Stock: stock}
	}
	keep, withdraw := s.sort([]loadgen.OpenSale{
		left("next", at(33, 0), every-time.Second, 300),
		left("next again", at(33, 0), every-time.Second, 300),
		left("open", at(30, 0), every-time.Second, 300),
		left("over", at(27, 0), every-time.Second, 300),
		left("of an hour's rhythm", at(0, 0), time.Hour-time.Second, 300),
		left("of half a minute's", at(32, 30), 29*time.Second, 300),
		left("smaller", at(36, 0), every-time.Second, 10),
	}, at(31, 20))
	names := func(sales []loadgen.OpenSale) (ids []string) {
		for _, sale := range sales {
			ids = append(ids, sale.ItemID)
		}
		return ids
	}
	if got := names(keep); !slices.Equal(got, []string{"open", "next"}) {
		t.Errorf("kept %q", got)
	}
	if got := names(withdraw); !slices.Equal(got, []string{"of an hour's rhythm", "of half a minute's", "next again", "smaller"}) {
		t.Errorf("withdrew %q", got)
	}
	for name, want := range map[string]bool{"Demo 22:33": true, "Demo rush": false, "Demo": false, "Demo 7": false, "My Demo 22:33": false} {
		if isDemo(name) != want {
			t.Errorf("isDemo(%q) = %v", name, !want)
		}
	}
}
