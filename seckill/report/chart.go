package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

type line struct {
	name, color, dashes string // dashes tell lines apart in print without colours
	points              []at
}

type at struct {
	when time.Time
	n    int64
}

func (l *line) add(when time.Time, n int64) { l.points = append(l.points, at{when, n}) }

// moment is a dashed upright in a chart.
type moment struct {
	name string
	when time.Time
}

// The chart's size in SVG units, with room for the axes' labels.
const (
	width, height       = 760, 240
	left, right         = 76, 34
	top, bottom         = 40, 30
	across, down        = width - left - right, height - top - bottom
	yTicks, xTicks      = 5, 6 // at most
	labelGap, legendGap = 8, 150
)

// chart draws lines over time with both axes, as SVG, and a moment in it. Every text
// in it is a number or escaped.
func chart(name string, lines []line, mark moment, zone *time.Location) template.HTML {
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
	span, yStep := max(until.Sub(from), time.Second), nice((most+yTicks-1)/yTicks)
	high := max(1, (most+yStep-1)/yStep) * yStep
	x := func(when time.Time) float64 { return left + across*float64(when.Sub(from))/float64(span) }
	y := func(n int64) float64 { return top + down*(1-float64(n)/float64(high)) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, width, height, template.HTMLEscapeString(name))
	for n := int64(0); n <= high; n += yStep {
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text class="y" x="%d" y="%.1f">%s</text>`, left, width-right, y(n), y(n), left-labelGap, y(n)+4, grouped(n))
	}
	step, layout := ticks(span)
	_, offset := from.In(zone).Zone()
	shift := time.Duration(offset) * time.Second // the shop's days and hours begin at round labels
	for when := from.Add(shift).Truncate(step).Add(-shift); !when.After(until); when = when.Add(step) {
		if !when.Before(from) {
			fmt.Fprintf(&b, `<line class="axis" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text class="x" x="%.1f" y="%d">%s</text>`, x(when), x(when), top+down, top+down+4, x(when), height-10, when.In(zone).Format(layout))
		}
	}
	if mark.when.After(from) && mark.when.Before(until) {
		fmt.Fprintf(&b, `<line class="mark" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text class="x" x="%.1f" y="%d">%s</text>`, x(mark.when), x(mark.when), top-4, top+down, x(mark.when), top-8, template.HTMLEscapeString(mark.name))
	}
	fmt.Fprintf(&b, `<path class="axis" d="M%d %d V%d H%d"/>`, left, top, top+down, width-right)
	for i, l := range lines {
		fmt.Fprintf(&b, `<polyline stroke="%s" stroke-dasharray="%s" points="`, l.color, l.dashes)
		for _, p := range l.points {
			fmt.Fprintf(&b, "%.1f,%.1f ", x(p.when), y(p.n))
		}
		key := left + i*legendGap
		fmt.Fprintf(&b, `"/><polyline stroke="%s" stroke-dasharray="%s" points="%d,9 %d,9"/><text x="%d" y="13">%s</text>`, l.color, l.dashes, key, key+24, key+30, template.HTMLEscapeString(l.name))
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String()) //nolint:gosec // built above from numbers and escaped names
}

// ticks are how far apart the labels of a time span are, and how they are written.
func ticks(span time.Duration) (step time.Duration, layout string) {
	step = 24 * time.Hour
	for _, s := range []time.Duration{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200} {
		if span <= xTicks*s*time.Second {
			step = s * time.Second
			break
		}
	}
	for span > xTicks*step {
		step *= 2
	}
	switch {
	case step < time.Minute:
		return step, "15:04:05"
	case span <= 24*time.Hour:
		return step, "15:04"
	default:
		return step, "01-02 15:04"
	}
}

// nice is the next 1, 2 or 5 times a power of ten.
func nice(n int64) int64 {
	for power := int64(1); power < math.MaxInt64/100; power *= 10 {
		for _, digit := range []int64{1, 2, 5} {
			if digit*power >= n {
				return digit * power
			}
		}
	}
	return n
}

// grouped writes a number with commas between thousands, which both languages read.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
