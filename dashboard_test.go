package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"gopkg.in/yaml.v3"
)

const grafanaDir = "platform/grafana"

// expressions are the PromQL of the dashboard and of the alert rules, by where
// they stand.
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
			// A rule's label takes the place of the one that its series has.
			brings, sets := bringsSeverity.MatchString(r.Expr), r.Labels["severity"] != ""
			if brings == sets {
				t.Errorf("rule %q: its series bring a severity is %v, and that it sets one %v", r.Alert, brings, sets)
			}
			alerts["alert "+r.Alert] = r.Expr
		}
	}
	var scraping struct {
		RuleFiles []string `yaml:"rule_files"`
	}
	read("prometheus.yml", func(raw []byte) error { return yaml.Unmarshal(raw, &scraping) })
	if !slices.Equal(scraping.RuleFiles, []string{"alerts.yml"}) {
		t.Errorf("prometheus.yml reads the rules %v", scraping.RuleFiles)
	}
	return panels, alerts
}

// bringsSeverity finds the expressions whose result has the label severity.
var bringsSeverity = regexp.MustCompile(`\bby\s*\([^)]*\bseverity\b`)

var (
	promWord     = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*(\s*\()?`)
	promSelector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)?\{([^}]*)\}`)
	promGrouping = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
	promMatcher  = regexp.MustCompile(`^\s*([a-zA-Z_]+)\s*(?:=~|!~|!=|=)\s*"`)
	promAside    = regexp.MustCompile(`\[[^\]]*\]|"[^"]*"`)
)

// ofPrometheus are words and labels of Prometheus itself.
var ofPrometheus = []string{"up", "and", "or", "unless", "bool", "offset", "job", "instance", "le", "quantile"}

// misnamed returns the metrics and labels of an expression that no server has,
// and notes the metrics that it uses.
func misnamed(expr string, families scraped, used map[string]bool) (wrong []string) {
	family := func(name string) *dto.MetricFamily {
		if f := families[name]; f != nil {
			used[name] = true
			return f
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base := strings.TrimSuffix(name, suffix)
			if f := families[base]; f != nil && base != name && f.GetType() == dto.MetricType_HISTOGRAM {
				used[base] = true
				return f
			}
		}
		return nil
	}
	known := map[string]bool{}
	learn := func(f *dto.MetricFamily) {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				known[l.GetName()] = true
			}
		}
	}
	for _, s := range promSelector.FindAllStringSubmatch(expr, -1) {
		if f := family(s[1]); f != nil {
			learn(f)
		}
		for matcher := range strings.SplitSeq(s[2], ",") {
			label := promMatcher.FindStringSubmatch(matcher)
			if len(label) == 0 || !known[label[1]] && !slices.Contains(ofPrometheus, label[1]) {
				wrong = append(wrong, "label "+matcher)
			}
		}
	}
	rest := promSelector.ReplaceAllString(promAside.ReplaceAllString(expr, ""), "$1")
	for _, w := range promWord.FindAllString(promGrouping.ReplaceAllString(rest, ""), -1) {
		if strings.HasSuffix(w, "(") || slices.Contains(ofPrometheus, w) {
			continue
		}
		if f := family(w); f != nil {
			learn(f)
		} else {
			wrong = append(wrong, "metric "+w)
		}
	}
	for _, g := range promGrouping.FindAllStringSubmatch(rest, -1) {
		for label := range strings.SplitSeq(g[1], ",") {
			if label = strings.TrimSpace(label); !known[label] && !slices.Contains(ofPrometheus, label) {
				wrong = append(wrong, "label "+label)
			}
		}
	}
	return wrong
}

// checkDashboard holds the dashboard and the rules against what a server serves
// after a sale: no name that it does not have, and no metric of ours that
// nobody would ever see.
func checkDashboard(t *testing.T, families scraped) {
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
	families := scraped{
		"paths_total":  {Type: &name, Metric: []*dto.Metric{{Label: []*dto.LabelPair{{Name: &label, Value: &value}}}}},
		"wait_seconds": {Type: &histogram, Metric: []*dto.Metric{{}}},
	}
	for expr, want := range map[string]string{
		`sum by (code) (rate(paths_total{instance=~"$instance",code="issued"}[$__rate_interval]))`: "",
		`histogram_quantile(0.99, sum by (le) (rate(wait_seconds_bucket[5m]))) > 5 or vector(0)`:   "",
		`rate(wait_seconds_sum[5m]) / rate(wait_seconds_count[5m])`:                                "",
		`sum (paths)`:                        "metric paths",
		`sum by (cod) (paths_total)`:         "label cod",
		`paths_total{cod="issued"}`:          `label cod="issued"`,
		`rate(paths_total_bucket[5m])`:       "metric paths_total_bucket",
		`up{job="stampede"} == 0`:            "",
		`sum by (code) (wait_seconds_count)`: "label code",
	} {
		if got := strings.Join(misnamed(expr, families, map[string]bool{}), "; "); got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}
