package loadgen

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Requirement is a bound on one figure of a report, such as p99<200ms, so that a
// program can tell a good run from a bad one.
type Requirement struct {
	name     string
	figure   figure
	operator string
	bound    float64
}

// Verdict says what a run had where it was required to meet a bound.
type Verdict struct {
	Required string `json:"required"`
	Found    string `json:"found"`
	Met      bool   `json:"met"`
}

// figure is a number of a report that a requirement may name.
type figure struct {
	unit unit
	// of returns false where the run did not measure it.
	of func(*Report) (float64, bool)
}

// unit is how the bounds of a figure are written and printed.
type unit struct {
	wanted string // what a bound must look like
	parse  func(text string) (float64, error)
	factor float64 // of the printed number
	suffix string
}

var (
	inMillis = unit{"a duration such as 200ms", func(text string) (float64, error) {
		d, err := time.ParseDuration(text)
		return float64(d) / float64(time.Millisecond), err
	}, 1, " ms"}
	inShare = unit{"a share such as 0.1% or 0.001", ParseShare, 100, " %"}
	inCount = unit{"a whole number such as 300", func(text string) (float64, error) {
		n, err := strconv.ParseUint(text, 10, 32)
		return float64(n), err
	}, 1, ""}
	inPerSecond = unit{"attempts per second such as 1000", func(text string) (float64, error) {
		return strconv.ParseFloat(strings.TrimSuffix(text, "/s"), 64)
	}, 1, "/s"}
)

// ParseShare reads a share of 0 to 1, such as 80% or 0.8.
func ParseShare(text string) (n float64, err error) {
	number, percent := strings.CutSuffix(text, "%")
	n, err = strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		n /= 100
	}
	if err == nil && !(n >= 0 && n <= 1) {
		err = strconv.ErrRange
	}
	return n, err
}

// text writes a figure or a bound.
func (u unit) text(n float64) string {
	return strconv.FormatFloat(math.Round(u.factor*n*1000)/1000, 'f', -1, 64) + u.suffix
}

// requirable lists the names, for errors and help.
const requirable = "p50, p90, p99 and max (of every answer, or of one kind: path.p99, refusal.p99, grant.p99, order.p99, push.p99), " +
	"errors, granted, paid, rate and visible, as in p99<200ms, errors<0.1%, granted=300, rate>=1000 and visible<2s"

// undecided are the answers that count as errors: they decide nothing about the attempt. A proxy's have the status alone.
var undecided = []string{answerNone, answerUnknown, answerFenced, "internal", "unavailable", "draining", "overloaded"}

var quantiles = map[string]func(Latency) float64{
	"p50": func(l Latency) float64 { return l.P50 }, "p90": func(l Latency) float64 { return l.P90 },
	"p99": func(l Latency) float64 { return l.P99 }, "max": func(l Latency) float64 { return l.Max },
}

// figureOf returns the figure of a name.
func figureOf(name string) (figure, bool) {
	switch name {
	case "errors":
		return figure{inShare, errorShare}, true
	case "granted":
		return figure{inCount, func(r *Report) (float64, bool) { return float64(r.Answers[answerQueued]), true }}, true
	case "paid":
		return figure{inCount, func(r *Report) (float64, bool) { return float64(r.Outcomes["paid"]), true }}, true
	case "rate":
		return figure{inPerSecond, func(r *Report) (float64, bool) { return r.PerSecond, r.PerSecond > 0 }}, true
	case "visible":
		return figure{inMillis, func(r *Report) (float64, bool) { return 1000 * r.AllVisible, r.AllVisible > 0 }}, true
	}
	kind, quantile, one := strings.Cut(name, ".")
	kinds := []string{kind}
	switch {
	case !one:
		quantile, kinds = name, []string{"refusal", "grant"}
	case kind == "order":
		kinds[0] = "order visible"
	case kind != "path" && kind != "refusal" && kind != "grant" && kind != "push":
		return figure{}, false
	}
	pick, known := quantiles[quantile]
	if !known {
		return figure{}, false
	}
	// Of several kinds the slowest counts: the quantile of all together is not above it.
	return figure{inMillis, func(r *Report) (slowest float64, measured bool) {
		for _, kind := range kinds {
			if l := r.Latency[kind]; l.Count > 0 {
				slowest, measured = max(slowest, pick(l)), true
			}
		}
		return slowest, measured
	}}, true
}

// errorShare is the share of the attempts whose answer decided nothing.
func errorShare(r *Report) (float64, bool) {
	var failed, all int64
	for answer, n := range r.Answers {
		all += n
		if code := strings.TrimPrefix(answer, pathRefused); slices.Contains(undecided, code) || strings.HasPrefix(code, "http-5") {
			failed += n
		}
	}
	return float64(failed) / float64(max(all, 1)), all > 0
}

// UnmarshalText reads a figure's name, an operator and a bound with its unit.
func (r *Requirement) UnmarshalText(raw []byte) (err error) {
	text := string(raw)
	at := strings.IndexAny(text, "<>=")
	if at < 0 {
		return fmt.Errorf("%q has none of <, <=, =, >= and >; a requirement names one of %s", text, requirable)
	}
	r.name, r.operator = strings.TrimSpace(text[:at]), text[at:at+1]
	bound := text[at+1:]
	if strings.HasPrefix(bound, "=") && r.operator != "=" {
		r.operator, bound = r.operator+"=", bound[1:]
	}
	var known bool
	if r.figure, known = figureOf(r.name); !known {
		return fmt.Errorf("%q is no figure of a rush; a requirement names one of %s", r.name, requirable)
	}
	bound = strings.TrimSpace(bound)
	r.bound, err = r.figure.unit.parse(bound)
	if err != nil || math.IsNaN(r.bound) || math.IsInf(r.bound, 0) || r.bound < 0 {
		return fmt.Errorf("the bound of %q must be %s, not %q", text, r.figure.unit.wanted, bound)
	}
	return nil
}

// met tells, by operator, whether a figure that compares so with its bound meets it.
var met = map[string]func(order int) bool{
	"<": func(order int) bool { return order < 0 }, "<=": func(order int) bool { return order <= 0 },
	"=":  func(order int) bool { return order == 0 },
	">=": func(order int) bool { return order >= 0 }, ">": func(order int) bool { return order > 0 },
}

// Judge compares a report with the requirement. What was not measured is not met.
func (r Requirement) Judge(rep *Report) Verdict {
	v := Verdict{Required: r.name + " " + r.operator + " " + r.figure.unit.text(r.bound), Found: "not measured"}
	n, measured := r.figure.of(rep)
	if !measured {
		return v
	}
	v.Found, v.Met = r.figure.unit.text(n), met[r.operator](cmp.Compare(n, r.bound))
	return v
}

// Write prints the verdict as a line.
func (v Verdict) Write(w io.Writer) error {
	name, rest, _ := strings.Cut(v.Required, " ")
	line := fmt.Sprintf("ok      %s %s %s\n", name, v.Found, rest)
	if !v.Met {
		line = fmt.Sprintf("MISSED  %s %s, required %s\n", name, v.Found, rest)
	}
	_, err := io.WriteString(w, line)
	return err
}
