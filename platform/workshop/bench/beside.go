package bench

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/workshop/loadgen"
)

const (
	// payRate is that of 10,000 winners who pay within a minute.
	payRate = 10_000.0 / 60
	// payersAtMost is how many winners wait to pay in a round: more than a round of
	// several seconds lets pay.
	payersAtMost = 5_000
	payersConns  = 64
)

// figureLate is by how much longer than planned the payments of a round took.
const figureLate = "payments late by"

// Beside measures what the winners of one item, who pay, cost the sale of another:
// both sides take attempts to their orders, ours while 10,000 winners a minute open a
// payment and pay it at the sandbox bank, which calls back.
func Beside() Stage {
	return Stage{
		Name: "beside", Unit: "orders", Target: 0.75, Probe: 4000, Most: 150_000,
		Ours:     "the whole way while winners of another item pay, 10,000 a minute",
		Baseline: "the whole way alone",
		Remark:   "The sale takes all the processor time it can get, and the bank runs inside the server: the ratio is an upper bound of what payments cost a sale.",
		Figures: []Figure{
			{Name: figureMedian, Unit: "ms"},
			{Name: figureP99, Unit: "ms"},
			{Name: figureLate, Unit: "%", AtMost: 25},
		},
		Open: openBeside,
	}
}

func openBeside(ctx context.Context, rig *Rig) (baseline, ours Side, closeSides func(context.Context) error, err error) {
	s, err := rig.Server(ctx)
	if err != nil {
		return baseline, ours, nil, err
	}
	item, err := s.Endless(ctx)
	if err != nil {
		return baseline, ours, nil, err
	}
	bought, err := s.Sale(ctx, endlessStock)
	if err != nil {
		return baseline, ours, nil, err
	}
	sale := s.orders(item)
	var payers *loadgen.Crowd
	ours = Side{
		Prepare: func(ctx context.Context, n int) (err error) {
			if payers != nil {
				payers.Close()
			}
			if payers, err = s.crowd(ctx, bought, min(n, payersAtMost), payersConns); err != nil {
				return err
			}
			if _, _, err := fireAll(ctx, payers, min(n, payersAtMost)); err != nil {
				return err
			}
			if err := allWritten(ctx, payers, payers.Last()); err != nil {
				return err
			}
			return sale.Prepare(ctx, n)
		},
		Work: func(ctx context.Context, n int) (Sample, error) {
			paying, stop := context.WithCancel(ctx)
			defer stop()
			paid := make(chan loadgen.Paid, 1)
			go func() { paid <- payers.Pay(paying, payers.Winners(), payRate) }()
			began := time.Now()
			if _, err := sale.Work(ctx, n); err != nil {
				return Sample{}, err
			}
			took := time.Since(began)
			stop()
			p := <-paid
			if p.Orders == 0 {
				return Sample{}, fmt.Errorf("no winner could pay within %s", took)
			}
			figures := percentiles(p.Took)
			figures[figureLate] = max(0, 100*(p.Elapsed.Seconds()*payRate/float64(p.Orders)-1))
			return Sample{Took: took, Figures: figures}, nil
		},
		Check: sale.Check,
	}
	return s.orders(item), ours, nil, nil
}
