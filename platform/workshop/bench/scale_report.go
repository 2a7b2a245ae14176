package bench

import (
	"fmt"
	"io"
	"strings"
)

// Write prints the report for a person.
func (r *ScaleReport) Write(w io.Writer) error {
	var b strings.Builder
	if len(r.Shoppers)+len(r.Items) > 0 {
		b.WriteString(" shoppers  items    units  sales  attempts/s  server µs  all µs  change\n")
		writePoints(&b, r.Shoppers)
		writePoints(&b, r.Items)
		b.WriteString("\nMicroseconds of processor time per attempt: of the server, and of server, Postgres and Redis.\n" +
			"The change is that of the latter against the size above. One shopper in a hundred gets a unit.\n")
	}
	if m := r.Million; m != nil {
		fmt.Fprintf(&b, "\n%d attempts on %d units by distinct users\n", m.Shoppers, m.Units)
		fmt.Fprintf(&b, "  %s %d units granted, %d orders read by their winners, books proved: %s\n", mark(m.Sound()), m.Granted, m.Orders, yes(m.BooksProved))
		fmt.Fprintf(&b, "  %s every winner's order readable after %.2f s; as many pure refusals take %.2f s (bound %.1f times)\n",
			mark(m.InTime()), m.VisibleAfter, m.Refusals, mostVisible)
		fmt.Fprintf(&b, "    all attempts answered after %.2f s\n", m.Seconds)
		if m.PeakMiB > 0 {
			fmt.Fprintf(&b, "  %s peak memory of the server %.0f MiB (bound %d)\n", mark(m.PeakMiB < mostPeakMiB), m.PeakMiB, mostPeakMiB)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writePoints prints one row per size. The change is that of the processor time
// of all processes, the cost of an attempt; the wall clock beside it also
// depends on the machine's other load.
func writePoints(b *strings.Builder, points []ScalePoint) {
	for i, p := range points {
		change := ""
		if i > 0 {
			change = fmt.Sprintf("%+.0f %%", 100*(p.All/points[i-1].All-1))
		}
		fmt.Fprintf(b, "%9d %6d %8d %6d %11.0f %10.1f %7.1f %7s\n", p.Shoppers, p.Items, p.Units, p.Sales, p.PerSecond, p.Server, p.All, change)
	}
}

// mark is conspicuous for a missed target, so that it is easy to find in a log.
func mark(ok bool) string {
	if ok {
		return "ok   "
	}
	return "SHORT"
}

func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return "NO"
}
