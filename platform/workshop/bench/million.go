package bench

import (
	"context"
	"fmt"
	"io"
	"time"

	"stampede/platform/watch/proof"
	"stampede/platform/workshop/loadgen"
)

// MillionReport is the result of the large sale.
type MillionReport struct {
	Shoppers int   `json:"shoppers"`
	Units    int   `json:"units"`
	Granted  int64 `json:"granted"`
	// Orders is how many winners could read their order afterwards.
	Orders int64 `json:"orders"`
	// Seconds is how long all attempts took, VisibleAfter until every winner's
	// order could be read.
	Seconds      float64 `json:"seconds"`
	VisibleAfter float64 `json:"orders_visible_after_seconds"`
	PeakMiB      float64 `json:"server_peak_mib"` // VmHWM; 0 if the system does not report it
	BooksProved  bool    `json:"books_proved"`
	// CPU is the processor seconds from the first path to the last order, by process, which a capacity can be compared with.
	CPU map[string]float64 `json:"cpu_seconds"`
}

const (
	// mostVisible bounds the ratio of the time until every order can be read to the
	// time of answering everyone, which for most is a refusal.
	mostVisible = 1.3
	// mostPeakMiB bounds the server's peak memory.
	mostPeakMiB = 300

	// pathsPerSecond is the rate that even a small, busy machine issues paths
	// at; it determines how far ahead of the opening they are fetched.
	pathsPerSecond = 10_000
	// openingMargin allows for publishing and for Redis's clock.
	openingMargin = 2 * time.Second
	// mostLead keeps the first path valid until the last is fetched; the server
	// issues none earlier than two minutes ahead.
	mostLead = 110 * time.Second
)

// Sound reports whether every unit was sold once and its order can be read.
func (m *MillionReport) Sound() bool {
	return m.BooksProved && m.Granted == int64(m.Units) && m.Orders == m.Granted
}

// OK reports whether every unit was sold once, visibly, in time and in memory.
func (m *MillionReport) OK() bool { return m.Sound() && m.inTime() && m.PeakMiB < mostPeakMiB }

func (m *MillionReport) inTime() bool { return m.VisibleAfter <= mostVisible*m.Seconds }

// Prover proves the books of one item against the client log.
type Prover func(ctx context.Context, databaseURL, redisURL string, item int64, told []proof.ClientRecord) (bool, error)

// Million sells units to more shoppers, once, and proves the books.
func Million(ctx context.Context, rig *Rig, shoppers, units int, progress io.Writer, prove Prover) (*MillionReport, error) {
	s, err := rig.Server(ctx)
	if err != nil {
		return nil, err
	}
	m := &MillionReport{Shoppers: shoppers, Units: units, CPU: map[string]float64{}}
	lead := openingMargin + time.Duration(shoppers)*time.Second/pathsPerSecond
	item, err := s.plan(ctx, m.Units, time.Now().Add(min(lead, mostLead)))
	if err != nil {
		return nil, err
	}
	cfg := s.run(item, shoppers, manyConns)
	cfg.Progress = progress
	before := rig.usage()
	played, err := loadgen.Run(ctx, cfg)
	if err != nil {
		return nil, err
	}
	for name, used := range rig.usage().since(before) {
		m.CPU[name] = used.Seconds()
	}
	m.Granted, m.Orders = played.Answers["queued"], played.Outcomes[statusPending]
	m.Seconds, m.VisibleAfter, m.PeakMiB = played.Seconds, played.AllVisible, peakMiB(s.PID())
	if m.BooksProved, err = prove(ctx, rig.stores.DatabaseURL, rig.stores.RedisURL, item, played.Entries); err != nil {
		return nil, fmt.Errorf("prove the books: %w", err)
	}
	return m, nil
}

// Write prints the report for a person.
func (m *MillionReport) Write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "\n%d attempts on %d units by distinct users\n"+
		"  %s %d units granted, %d orders read by their winners, books proved: %t\n"+
		"  %s all attempts answered after %.2f s, every winner's order readable after %.2f s (bound %.1f times)\n",
		m.Shoppers, m.Units, mark(m.Sound()), m.Granted, m.Orders, m.BooksProved,
		mark(m.inTime()), m.Seconds, m.VisibleAfter, mostVisible)
	if err == nil {
		_, err = fmt.Fprintf(w, "        processor seconds: %s\n", spent(m.CPU))
	}
	if err == nil && m.PeakMiB > 0 {
		_, err = fmt.Fprintf(w, "  %s peak memory of the server %.0f MiB (bound %d)\n", mark(m.PeakMiB < mostPeakMiB), m.PeakMiB, mostPeakMiB)
	}
	return err
}

// mark is conspicuous for a missed target, so that it is easy to find in a log.
func mark(ok bool) string {
	if ok {
		return "ok   "
	}
	return "SHORT"
}
