package rush

import (
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/clock"
	"stampede/platform/watch/tally"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
)

// Two instances and two items, each with its own lane: the board has what both
// told their shoppers, the waits of those that went through a lane, and the moment of
// the sell-out.
func TestBoardHasTheAnswersOfEveryInstance(t *testing.T) {
	t.Parallel()
	y := setup(t)
	items := []*catalogue.Item{y.Item(20), y.Item(30)}
	var boards []*tally.Board
	var instances []*instance
	for range 2 {
		i := y.instance(items)
		b := tally.New(y.DB, clock.System{}, slog.New(slog.DiscardHandler))
		i.rush.metrics.board = b
		b.From(i.rush.metrics.handOver)
		boards, instances = append(boards, b), append(instances, i)
	}
	fold := func() {
		for _, b := range boards {
			require.NoError(t, b.Fold(t.Context()))
		}
	}
	const shoppers = 100
	var mu sync.Mutex
	told := map[int64]map[string]int64{items[0].ID: {}, items[1].ID: {}}
	var group sync.WaitGroup
	for _, it := range items {
		for u := range int64(shoppers) {
			i := instances[u%2]
			p := i.issue(u+1, it, 1)
			group.Go(func() {
				a := i.send(p.Path)
				code := a.Code
				if a.Status == http.StatusAccepted {
					code = "queued"
				}
				mu.Lock()
				told[it.ID][code]++
				mu.Unlock()
			})
		}
	}
	fold() // in the middle of it
	group.Wait()
	fold()
	totals, err := tally.Totals(t.Context(), y.DB, items[0].ID, items[1].ID)
	require.NoError(t, err)
	for _, it := range items {
		have := totals[it.ID]
		if !maps.Equal(have[StageAnswers], told[it.ID]) || told[it.ID]["queued"] != int64(it.Total) {
			t.Errorf("item with %d units: counted %v, told %v", it.Total, have[StageAnswers], told[it.ID])
		}
		if have.Sum(StageWaits) < int64(it.Total) || have[StageGrants]["stored"] != int64(it.Total) {
			t.Errorf("waits %v, grants %v", have[StageWaits], have[StageGrants])
		}
		moments, err := tally.Moments(t.Context(), y.DB, it.ID)
		if err != nil || moments[MomentEmptied].First.Before(moments[MomentGranted].First) || moments[MomentGranted].First.IsZero() {
			t.Errorf("moments %v %v", moments, err)
		}
	}
}

// An item's counters are dropped with their item; /metrics keeps their sum.
func TestTrimKeepsTheSum(t *testing.T) {
	t.Parallel()
	m, err := newMetrics(prometheus.NewRegistry(), nil, func(func(int64, depth)) {})
	require.NoError(t, err)
	for item := range int64(maxTallies + 1) {
		m.count(item+1, item, true, outSoldOut)
	}
	m.trim(func(item int64) bool { return item == 1 })
	require.Equal(t, "items left", len(m.perItem.items()), 1)
	require.Equal(t, "answers of others", m.others[outSoldOut].Load(), maxTallies)
}

// An item that is not in the catalogue has no funnel.
func TestUnknownItemIsNotCounted(t *testing.T) {
	t.Parallel()
	y := setup(t)
	i := y.instance([]*catalogue.Item{y.Item(1)})
	i.do(httptest.NewRequest(http.MethodPost, rushPrefix+"nonsense", nil))
	require.Equal(t, "items counted", len(i.rush.metrics.perItem.items()), 0)
	require.Equal(t, "unknown items", [2]int64{i.rush.known("12345"), i.rush.known("x")}, [2]int64{})
}
