package shop

import (
	"bytes"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"stampede/platform/workshop/require"
)

// Scraped is one scrape of /metrics.
type Scraped map[string]*dto.MetricFamily

// Scrape reads the metrics at an ops address.
func Scrape(t *testing.T, opsURL string) Scraped {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(Fetch(t, opsURL+"/metrics").Raw))
	require.NoError(t, err)
	return families
}

// Join adds what another instance exports.
func (s Scraped) Join(other Scraped) {
	for name, family := range other {
		if s[name] == nil {
			s[name] = family
		} else {
			s[name].Metric = append(s[name].Metric, family.GetMetric()...)
		}
	}
}

// Sum adds up the counters of a family with the given labels: "name" or
// "name{label=value,…}". A missing family is −1, which matches no expected
// value.
func (s Scraped) Sum(t *testing.T, series string) int64 {
	t.Helper()
	name, rest, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	family := s[name]
	if family == nil {
		return -1
	}
	total := 0.0
	for _, m := range family.GetMetric() {
		have := map[string]string{}
		for _, l := range m.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		matches := true
		for want := range strings.SplitSeq(rest, ",") {
			label, value, given := strings.Cut(want, "=")
			matches = matches && (!given || have[label] == value)
		}
		if matches {
			total += m.GetCounter().GetValue()
		}
	}
	return int64(total)
}

// Labelled returns a family's counters by the value of one label, without those at 0.
func (s Scraped) Labelled(name, label string) map[string]int64 {
	all := map[string]int64{}
	for _, m := range s[name].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == label && m.GetCounter().GetValue() > 0 {
				all[l.GetValue()] += int64(m.GetCounter().GetValue())
			}
		}
	}
	return all
}
