package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"stampede/platform/workshop/loadgen"
)

const (
	// payRate is that of 10,000 winners who pay within a minute.
	payRate = 10_000.0 / 60
	// payersConns is enough for one second's payments to be under way.
	payersConns = 256
	// saleShare is the part of what the machine takes at most at which the other sale
	// runs: at all of it, everything that runs beside a sale slows it.
	saleShare = 1.0 / 3
	// quickPayers are enough to see that winners can pay beside a sale.
	quickPayers = 50
)

// paying is a sale beside winners who pay.
type paying struct {
	s            *Server
	sold, bought int64 // the sale's item, and the winners'
	// alone are the last round's results of each without the other.
	alone struct {
		p99    float64
		paid   loadgen.Paid
		payCPU time.Duration
	}
	took   time.Duration // of the last round of the sale alone
	payers *loadgen.Crowd
}

// openPaying measures what the winners of one item, who pay, and the sale of another
// do to each other at loads that are given: 10,000 payments a minute, and attempts at
// the share of the rate that the machine takes alone, measured first, or flatOut.
// Neither side's senders wait for the server, so that a server which falls behind
// shows it in the times.
func openPaying(ctx context.Context, rig *Rig, share float64) (baseline, ours Side, err error) {
	if err := rig.bankElsewhere(ctx); err != nil {
		return baseline, ours, err
	}
	p := &paying{}
	if p.s, err = rig.Server(ctx); err != nil {
		return baseline, ours, err
	}
	if p.sold, err = p.s.Endless(ctx); err != nil {
		return baseline, ours, err
	}
	if p.bought, err = p.s.Sale(ctx, endlessStock); err != nil {
		return baseline, ours, err
	}
	rate := float64(flatOut)
	if share != flatOut {
		most, err := p.most(ctx)
		if err != nil {
			return baseline, ours, err
		}
		rate = most * share
	}
	baseline, ours = p.sides(rate)
	return baseline, ours, nil
}

// most is how many attempts a second become orders if nothing else runs: the median of
// three short visits, after one that warms up. Quick makes it one, of fewer attempts.
func (p *paying) most(ctx context.Context) (perSecond float64, err error) {
	visits, attempts := 3, 4000
	if p.s.rig.quick {
		visits, attempts = 1, 500
	}
	sale := p.s.orders(p.sold, flatOut)
	var rates []float64
	for range 1 + visits {
		if err := sale.Prepare(ctx, attempts); err != nil {
			return 0, err
		}
		began := time.Now()
		if _, err := sale.Work(ctx, attempts); err != nil {
			return 0, err
		}
		rates = append(rates, float64(attempts)/time.Since(began).Seconds())
	}
	return median(rates[1:]), nil
}

// sides are the sale alone, and beside the winners.
func (p *paying) sides(perSecond float64) (baseline, ours Side) {
	alone, sale := p.s.orders(p.sold, perSecond), p.s.orders(p.sold, perSecond)
	baseline, ours = alone, sale
	baseline.Work = func(ctx context.Context, n int) (Sample, error) {
		began := time.Now()
		sample, err := alone.Work(ctx, n)
		p.took, p.alone.p99 = time.Since(began), sample.Figures[figureP99]
		return sample, err
	}
	ours.Prepare = func(ctx context.Context, n int) error {
		if err := p.payAlone(ctx); err != nil {
			return err
		}
		return sale.Prepare(ctx, n)
	}
	ours.Work = func(ctx context.Context, n int) (Sample, error) {
		paying, stop := context.WithCancel(ctx)
		defer stop()
		paid := make(chan loadgen.Paid, 1)
		go func() { paid <- p.payers.PayAt(paying, p.payers.Winners(), payRate) }()
		began := time.Now()
		sample, err := sale.Work(ctx, n)
		sample.Took = time.Since(began)
		stop()
		beside := <-paid
		if err != nil {
			return sample, err
		}
		if beside.Orders == 0 {
			return sample, fmt.Errorf("no winner could pay within %s", sample.Took)
		}
		p.compare(sample.Figures, &beside)
		return sample, nil
	}
	return baseline, ours
}

// payAlone lets winners pay for as long as the sale alone took, and then gathers those
// who pay beside it.
func (p *paying) payAlone(ctx context.Context) error {
	n := int(math.Ceil(payRate * p.took.Seconds()))
	if p.s.rig.quick {
		n = min(n, quickPayers)
	}
	if err := p.win(ctx, n); err != nil {
		return err
	}
	before := p.s.rig.usage()
	p.alone.paid = p.payers.PayAt(ctx, p.payers.Winners(), payRate)
	if p.alone.paid.Orders == 0 {
		return fmt.Errorf("of %d winners no one could pay", n)
	}
	p.alone.payCPU = 0
	for name, t := range p.s.rig.usage().since(before) {
		if name != nameSelf && name != nameBank {
			p.alone.payCPU += t / time.Duration(p.alone.paid.Orders)
		}
	}
	// The sale may take longer beside payments, which go on to its end.
	const longest = 4
	return p.win(ctx, longest*n)
}

// win lets new shoppers win n orders to pay.
func (p *paying) win(ctx context.Context, n int) (err error) {
	if p.payers != nil {
		p.payers.Close()
	}
	if p.payers, err = p.s.crowd(ctx, p.bought, n, payersConns); err != nil {
		return err
	}
	if _, _, err := fireAll(ctx, p.payers, n, flatOut); err != nil {
		return err
	}
	return allWritten(ctx, p.payers, p.payers.Last())
}

// compare adds what each did to the other.
func (p *paying) compare(figures map[string]float64, beside *loadgen.Paid) {
	const percent = 100
	figures[figureSlower] = percent * max(0, figures[figureP99]/p.alone.p99-1)
	figures[figureOnTime] = percent * beside.OnTimeShare()
	figures[figureLate] = percent * max(0, 1-beside.OnTimeShare()/p.alone.paid.OnTimeShare())
	figures[figurePayTook], figures[figurePayAlone] = beside.Took.P50, p.alone.paid.Took.P50
	figures[figurePayCPU] = float64(p.alone.payCPU.Microseconds()) / 1000
}
