package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// MillionReport is the result of the proof's crowd.
type MillionReport struct {
	Shoppers int   `json:"shoppers"`
	Units    int   `json:"units"`
	Granted  int64 `json:"granted"`
	// Orders is how many winners could read their order afterwards.
	Orders int64 `json:"orders"`
	// Seconds is how long all attempts took, VisibleAfter until every winner's
	// order could be read, and Refusals how long the same number of pure refusals
	// takes, by the losers sending their attempts once more.
	Seconds      float64 `json:"seconds"`
	VisibleAfter float64 `json:"orders_visible_after_seconds"`
	Refusals     float64 `json:"pure_refusals_seconds"`
	PeakMiB      float64 `json:"server_peak_mib"` // VmHWM; 0 if the system does not report it
	BooksProved  bool    `json:"books_proved"`
}

// The bounds of the proof.
const (
	// mostVisible bounds the ratio of the whole sale's time to the time of
	// refusing everyone.
	mostVisible = 1.3
	// mostPeakMiB bounds the server's peak memory.
	mostPeakMiB = 300
)

// statusPending is the status of a new order.
const statusPending = "pending_payment"

// OK reports whether the proof, if it was played, met its targets.
func (r *ScaleReport) OK() bool { return r.Million == nil || r.Million.OK() }

// OK reports whether every unit was sold once, visibly, in time and in memory.
func (m *MillionReport) OK() bool { return m.Sound() && m.InTime() && m.PeakMiB < mostPeakMiB }

// Sound reports whether every unit was sold once and its order can be read.
func (m *MillionReport) Sound() bool {
	return m.BooksProved && m.Granted == int64(m.Units) && m.Orders == m.Granted
}

// InTime reports whether the orders were visible in time.
func (m *MillionReport) InTime() bool { return m.VisibleAfter <= mostVisible*m.Refusals }

// million plays the big crowd.
func (plan *ScalePlan) million(ctx context.Context, s *Server) (*MillionReport, error) {
	x := sale{shoppers: plan.Million, items: 1, times: 1, conns: plan.Connections}
	m := &MillionReport{Shoppers: x.shoppers, Units: x.units()}
	users := s.rig.Users(x.shoppers)
	_, _ = fmt.Fprintf(plan.Progress, "%9d shoppers fetch their paths for %d units …\n", m.Shoppers, m.Units)
	crowds, err := x.gather(ctx, s, users)
	defer disband(crowds)
	if err != nil {
		return nil, err
	}
	crowd := crowds[0]
	already, err := s.written(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	var visible time.Time
	watching, giveUp := context.WithCancel(ctx)
	defer giveUp()
	watch, watchCtx := errgroup.WithContext(watching)
	watch.Go(func() (err error) {
		visible, err = s.awaitWritten(watchCtx, already+int64(m.Units))
		return err
	})
	v, err := x.sell(ctx, s, crowd)
	if err != nil {
		giveUp()
	}
	if err = errors.Join(err, watch.Wait()); err != nil {
		return nil, fmt.Errorf("%d shoppers: %w", m.Shoppers, err)
	}
	m.Granted, m.Seconds, m.VisibleAfter = v.Granted, v.Elapsed.Seconds(), visible.Sub(began).Seconds()
	again := crowd.FireAgain(ctx)
	m.Refusals = again.Elapsed.Seconds() * float64(m.Shoppers) / float64(max(again.Sent, 1))
	m.Granted += again.Granted // 0 if nothing is oversold
	m.Orders = crowd.Ask(ctx, crowd.Winners())[statusPending]
	_, peak := residentKiB(s.PID())
	m.PeakMiB = float64(peak) / 1024
	m.BooksProved, err = plan.Prove(ctx, s.DatabaseURL, s.RedisURL, crowd.Item(), crowd.Entries(users))
	if err != nil {
		return nil, fmt.Errorf("prove the books: %w", err)
	}
	return m, ctx.Err()
}

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
