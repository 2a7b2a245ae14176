package bench

import (
	"fmt"
	"io"
	"strings"
)

// The plot's geometry, in pixels: two charts side by side, each with its axis
// text outside.
const (
	plotWidth, plotHeight = 860, 320
	chartTop, chartHeight = 56, 200
	chartLeft, chartWide  = 60, 330
	chartStep             = 420 // from one chart to the next
	// gridLines divides the height of a chart.
	gridLines = 4
)

// WriteSVG draws what an attempt costs over the size of the crowd and over the
// number of items. Each step of an axis is ten times the one before, so the
// points stand at equal distances.
func (r *ScaleReport) WriteSVG(w io.Writer) error {
	most := 1.0
	for _, p := range append(append([]ScalePoint{}, r.Shoppers...), r.Items...) {
		most = max(most, p.All)
	}
	most = niceAbove(most)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13">`+"\n", plotWidth, plotHeight)
	// A page may be dark: the plot brings its own ground.
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<text x="%d" y="24" font-size="15" fill="#222">Processor time per attempt, µs</text>`+"\n", chartLeft)
	for i, line := range [...]struct{ name, colour string }{{"server", colourServer}, {"server, Postgres and Redis", colourAll}} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="19" r="5" fill="%s"/><text x="%d" y="24" fill="#222">%s</text>`+"\n",
			chartLeft+300+120*i, line.colour, chartLeft+312+120*i, line.name)
	}
	drawChart(&b, chartLeft, "shoppers, one item", most, r.Shoppers, func(p ScalePoint) int { return p.Shoppers })
	drawChart(&b, chartLeft+chartStep, "items on sale at once", most, r.Items, func(p ScalePoint) int { return p.Items })
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// The two lines' colours can be told apart without seeing red and green.
const (
	colourServer = "#0072b2"
	colourAll    = "#d55e00"
)

// drawChart draws both lines over sizes at equal distances, with the figure beside
// each point.
func drawChart(b *strings.Builder, left int, label string, most float64, points []ScalePoint, size func(ScalePoint) int) {
	y := func(v float64) float64 { return chartTop + chartHeight*(1-v/most) }
	for i := range gridLines + 1 {
		v := most * float64(i) / gridLines
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end" fill="#555">%g</text>`+"\n",
			left, left+chartWide, y(v), y(v), left-8, y(v)+4, v)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" fill="#222">%s</text>`+"\n", left+chartWide/2, chartTop+chartHeight+46, label)
	x := func(i int) float64 {
		return float64(left) + chartWide*(float64(i)+0.5)/float64(len(points))
	}
	for _, line := range [...]struct {
		colour string
		label  float64 // from the point: above the upper line, below the lower
		value  func(ScalePoint) float64
	}{
		{colourAll, -9, func(p ScalePoint) float64 { return p.All }},
		{colourServer, 19, func(p ScalePoint) float64 { return p.Server }},
	} {
		var path, dots strings.Builder
		for i, p := range points {
			fmt.Fprintf(&path, "%.1f,%.1f ", x(i), y(line.value(p)))
			fmt.Fprintf(&dots, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/><text x="%.1f" y="%.1f" text-anchor="middle" fill="%s">%.1f</text>`+"\n",
				x(i), y(line.value(p)), line.colour, x(i), y(line.value(p))+line.label, line.colour, line.value(p))
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n%s", strings.TrimSpace(path.String()), line.colour, dots.String())
	}
	for i, p := range points {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#555">%s</text>`+"\n", x(i), chartTop+chartHeight+22, thousands(float64(size(p))))
	}
}

// niceAbove is the next of 20, 40, 60, 80, 100, 200 … above v, which divides
// well into the grid.
func niceAbove(v float64) float64 {
	for step := 20.0; ; step *= 10 {
		for n := 1.0; n <= 5; n++ {
			if n*step >= v {
				return n * step
			}
		}
	}
}
