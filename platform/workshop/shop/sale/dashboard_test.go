package sale

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v3"

	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

const grafanaDir = "platform/watch/grafana"

// expressions returns the PromQL of the dashboard and of the alert rules, by location.
func expressions(t *testing.T) (panels, alerts map[string]string) {
	t.Helper()
	read := func(name string, decode func([]byte) error) {
		raw, err := os.ReadFile(filepath.Join(grafanaDir, name))
		if err == nil {
			err = decode(raw)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr, RefID string }
		}
	}
	read("stampede.json", func(raw []byte) error { return json.Unmarshal(raw, &dashboard) })
	panels = map[string]string{}
	for _, p := range dashboard.Panels {
		if len(p.Targets) == 0 && p.Type != "row" {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			panels["panel "+p.Title+" "+target.RefID] = target.Expr
		}
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	read("alerts.yml", func(raw []byte) error { return yaml.Unmarshal(raw, &rules) })
	alerts = map[string]string{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || r.Annotations["summary"] == "" {
				t.Errorf("rule %q needs a name and a summary", r.Alert)
			}
			// A rule's label replaces that of its series.
			parsed, err := promql(r.Expr)
			if err != nil {
				t.Fatalf("rule %q: %v", r.Alert, err)
			}
			brings, sets := slices.Contains(groupings(parsed), "severity"), r.Labels["severity"] != ""
			if brings == sets {
				t.Errorf("rule %q: its series have a severity: %v; it sets one: %v", r.Alert, brings, sets)
			}
			alerts["alert "+r.Alert] = r.Expr
		}
	}
	var scraping struct {
		RuleFiles []string `yaml:"rule_files"`
	}
	read("prometheus.yml", func(raw []byte) error { return yaml.Unmarshal(raw, &scraping) })
	require.Equal(t, "the rules that prometheus.yml reads", scraping.RuleFiles, []string{"alerts.yml"})
	return panels, alerts
}

// ofPrometheus are the metrics and labels of Prometheus itself.
var ofPrometheus = []string{"up", "job", "instance", "le", "quantile"}

// promql parses an expression with Grafana's variables not yet replaced.
func promql(expr string) (parser.Expr, error) {
	variables := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h")
	return parser.NewParser(parser.Options{}).ParseExpr(variables.Replace(expr))
}

// groupings are the labels by which an expression groups and matches its series.
func groupings(expr parser.Expr) (labels []string) {
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.AggregateExpr:
			labels = append(labels, n.Grouping...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				labels = append(append(labels, n.VectorMatching.MatchingLabels...), n.VectorMatching.Include...)
			}
		}
		return nil
	})
	return labels
}

// misnamed returns the metrics and labels of an expression that do not exist on
// a server, and records the metrics that it uses.
func misnamed(expr string, families shop.Scraped, used map[string]bool) (wrong []string) {
	parsed, err := promql(expr)
	if err != nil {
		return []string{err.Error()}
	}
	known := slices.Clone(ofPrometheus)
	for _, selector := range parser.ExtractSelectors(parsed) {
		name := ""
		for _, m := range selector {
			if m.Name == model.MetricNameLabel {
				name = m.Value
			}
		}
		family, ok := familyOf(name, families)
		if !ok && !slices.Contains(ofPrometheus, name) {
			wrong = append(wrong, "metric "+name)
		}
		used[family] = ok
		for _, m := range families[family].GetMetric() {
			for _, l := range m.GetLabel() {
				known = append(known, l.GetName())
			}
		}
		for _, m := range selector {
			if m.Name != model.MetricNameLabel && !slices.Contains(known, m.Name) {
				wrong = append(wrong, "label "+m.String())
			}
		}
	}
	for _, label := range groupings(parsed) {
		if !slices.Contains(known, label) {
			wrong = append(wrong, "label "+label)
		}
	}
	return wrong
}

// familyOf returns the metric that a series belongs to: the series itself or,
// for those of a histogram, the name without its suffix.
func familyOf(series string, families shop.Scraped) (name string, ok bool) {
	if families[series] != nil {
		return series, true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		base, cut := strings.CutSuffix(series, suffix)
		if f := families[base]; cut && f != nil && f.GetType() == dto.MetricType_HISTOGRAM {
			return base, true
		}
	}
	return "", false
}

// checkDashboard compares the dashboard and the rules with a server's metrics
// after a sale: every name must exist, and every metric of ours must be shown
// somewhere.
func checkDashboard(t *testing.T, families shop.Scraped) {
	t.Helper()
	panels, alerts := expressions(t)
	shown := map[string]bool{}
	for where, expr := range panels {
		for _, wrong := range misnamed(expr, families, shown) {
			t.Errorf("%s: the server has no %s in %s", where, wrong, expr)
		}
	}
	for where, expr := range alerts {
		for _, wrong := range misnamed(expr, families, map[string]bool{}) {
			t.Errorf("%s: the server has no %s in %s", where, wrong, expr)
		}
	}
	if len(panels) < 30 || len(alerts) < 10 {
		t.Errorf("%d expressions in panels and %d in alerts were found; has the form of the files changed?", len(panels), len(alerts))
	}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if strings.HasPrefix(name, "stampede_") && !shown[name] {
			t.Errorf("no panel shows %s; show it or drop it", name)
		}
	}
}

func TestMisnamedExpressionsAreFound(t *testing.T) {
	t.Parallel()
	label, value := "code", "issued"
	name, histogram := dto.MetricType_COUNTER, dto.MetricType_HISTOGRAM
	families := shop.Scraped{
		"paths_total":  {Type: &name, Metric: []*dto.Metric{{Label: []*dto.LabelPair{{Name: &label, Value: &value}}}}},
		"wait_seconds": {Type: &histogram, Metric: []*dto.Metric{{}}},
	}
	for expr, want := range map[string]string{
		`sum by (code) (rate(paths_total{instance=~"$instance",code="issued"}[$__rate_interval]))`: "",
		`histogram_quantile(0.99, sum by (le) (rate(wait_seconds_bucket[5m]))) > 5 or vector(0)`:   "",
		`rate(wait_seconds_sum[5m]) / rate(wait_seconds_count[5m])`:                                "",
		`sum by (code) (rate(paths_total[5m])`:                                                     `1:37: parse error: unclosed left parenthesis`,
		`sum (paths)`:                                                                              "metric paths",
		`sum by (cod) (paths_total)`:                                                               "label cod",
		`paths_total{cod="issued"}`:                                                                `label cod="issued"`,
		`rate(paths_total_bucket[5m])`:                                                             "metric paths_total_bucket",
		`up{job="stampede"} == 0`:                                                                  "",
		`sum by (code) (wait_seconds_count)`:                                                       "label code",
	} {
		require.Equal(t, expr, strings.Join(misnamed(expr, families, map[string]bool{}), "; "), want)
	}
}
