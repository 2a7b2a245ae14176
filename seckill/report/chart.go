package report

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

// line is one line of a chart.
type line struct {
	name, color string
	points      []at
}

type at struct {
	when time.Time
	n    int64
}

func (l *line) add(when time.Time, n int64) { l.points = append(l.points, at{when, n}) }

// The chart's size in SVG units, with room for the axes' labels.
const (
	width, height       = 760, 260
	left, right         = 64, 30
	top, bottom         = 26, 34
	across, down        = width - left - right, height - top - bottom
	yTicks, xTicks      = 4, 5
	labelGap, legendGap = 8, 130
)

// chart draws lines over time with both axes, as SVG. Every text in it is a number
// or escaped.
func chart(lines []line, zone *time.Location) template.HTML {
	var from, until time.Time
	most := int64(0)
	for _, l := range lines {
		for _, p := range l.points {
			if from.IsZero() || p.when.Before(from) {
				from = p.when
			}
			if p.when.After(until) {
				until = p.when
			}
			most = max(most, p.n)
		}
	}
	if from.IsZero() {
		return ""
	}
	span, high := max(until.Sub(from), time.Second), nice(most)
	x := func(when time.Time) float64 { return left + across*float64(when.Sub(from))/float64(span) }
	y := func(n int64) float64 { return top + down*(1-float64(n)/float64(high)) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img">`, width, height)
	for i := range int64(yTicks + 1) {
		n := high * i / yTicks
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text class="y" x="%d" y="%.1f">%d</text>`, left, width-right, y(n), y(n), left-labelGap, y(n)+4, n)
	}
	layout := "15:04:05"
	if span > 24*time.Hour {
		layout = "01-02 15:04"
	}
	for i := range xTicks + 1 {
		when := from.Add(span * time.Duration(i) / xTicks)
		fmt.Fprintf(&b, `<line class="axis" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text class="x" x="%.1f" y="%d">%s</text>`, x(when), x(when), top+down, top+down+4, x(when), height-12, when.In(zone).Format(layout))
	}
	fmt.Fprintf(&b, `<path class="axis" d="M%d %d V%d H%d"/>`, left, top, top+down, width-right)
	for i, l := range lines {
		fmt.Fprintf(&b, `<polyline stroke="%s" points="`, l.color)
		for _, p := range l.points {
			fmt.Fprintf(&b, "%.1f,%.1f ", x(p.when), y(p.n))
		}
		name := left + i*legendGap
		fmt.Fprintf(&b, `"/><rect x="%d" y="6" width="12" height="4" fill="%s"/><text x="%d" y="13">%s</text>`, name, l.color, name+18, template.HTMLEscapeString(l.name))
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // built above from numbers and escaped names
}

// nice is the next 1, 2 or 5 times a power of ten that is a multiple of yTicks.
func nice(n int64) int64 {
	for power := int64(yTicks); power < math.MaxInt64/100; power *= 10 {
		for _, digit := range []int64{1, 2, 5} {
			if digit*power >= n {
				return digit * power
			}
		}
	}
	return n
}
