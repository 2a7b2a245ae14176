package bench

import (
	"context"
	"errors"
	"fmt"
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
