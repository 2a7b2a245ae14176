package cli

import (
	"context"
	"errors"
	"fmt"

	"stampede/platform/watch/proof"
	"stampede/platform/workshop/bench"
)

// ErrScale means that the large sale lost or oversold a unit, or that its books
// do not prove.
var ErrScale = errors.New("a unit was lost or sold twice, or the books do not prove, see above")

// scalePlans are the values of --scale.
var scalePlans = map[string]bench.ScalePlan{
	"curve": bench.CurvePlan, "million": bench.MillionPlan, "short": bench.ShortPlan,
}

// scale is `stampede bench --scale`: the cost of an attempt in sales of
// different sizes, and a million attempts on ten thousand units.
func (c *Bench) scale(ctx context.Context, out Streams, prove Prover) (err error) {
	plan := scalePlans[c.Scale]
	plan.Progress = out.Err
	plan.Prove = func(ctx context.Context, databaseURL, redisURL string, item int64, told []proof.ClientRecord) (bool, error) {
		found, err := prove(ctx, Stores{DatabaseURL: databaseURL, RedisURL: redisURL}, item, told)
		if err == nil {
			err = found.Write(out.Err)
		}
		return err == nil && proof.AllOK(found.Checks), err
	}
	_, _ = fmt.Fprintln(out.Err, "Starting Postgres, Redis and the server in a temporary folder.")
	rig, err := bench.NewRig(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close(ctx)) }()
	report, err := bench.Scale(ctx, rig, plan)
	if err != nil {
		return cutShort(ctx, err)
	}
	if err := printReport(out.Out, report, c.JSON); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	switch m := report.Million; {
	case m != nil && !m.Sound():
		return ErrScale // promised on any machine
	case m != nil && !m.OK() && c.Strict:
		return ErrShort
	}
	return nil
}
