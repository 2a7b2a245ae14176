package cli

import (
	"context"
	"errors"
	"fmt"
	stdio "io"
	"os"
	"slices"
	"strings"
	"time"

	"stampede/platform/watch/proof"
	"stampede/platform/workshop/bench"
)

// Bench is `stampede bench`.
type Bench struct {
	Stages    []string `help:"Measure only these stages, comma-separated: refusal, paths, whole, webhook, reminders."`
	Quick     bool     `help:"Only check that everything works: few operations, one round; the figures are meaningless."`
	JSON      bool     `name:"json" help:"Print the report as JSON."`
	Strict    bool     `help:"Exit 1 when a target was missed."`
	Instances int      `help:"Run this many instances, 1 to 8, on a Redis Cluster and a NATS cluster of three each; with --scale=million the stock has four shards. 0 is one server with NATS inside and one Redis. The stage reminders, which restarts the server, has only that."`
	Scale     string   `enum:",million" default:"" help:"Instead of the stages, million: a million attempts on 10,000 units, whose books are proved."`
	Profile   string   `type:"path" help:"Write a processor profile of each stage to this folder, for go tool pprof."`
}

const (
	// rounds is how many times each side of a stage is measured, alternating.
	rounds = 5
	// round is how long one measurement of a side takes.
	round = 1500 * time.Millisecond
)

var (
	// ErrShort means that a target was missed with --strict.
	ErrShort = errors.New("a target was missed, see above")
	// ErrScale means that the large sale lost or oversold a unit, or that its books
	// do not prove.
	ErrScale = errors.New("a unit was lost or sold twice, or the books do not prove, see above")
)

// Validate checks the flags before anything is started.
func (c *Bench) Validate() error {
	if c.Instances < 0 || c.Instances > bench.MostInstances {
		return fmt.Errorf("--instances must be between 0 and %d, not %d", bench.MostInstances, c.Instances)
	}
	_, err := c.choose()
	return err
}

// Run starts a private stack, measures, and prints the report.
func (c *Bench) Run(ctx context.Context, io Streams, prove Prover) (err error) {
	chosen, err := c.choose()
	if err != nil {
		return err
	}
	cfg := bench.Config{Rounds: rounds, Round: round, Quick: c.Quick, ProfileDir: c.Profile, Progress: io.Err}
	if c.Quick {
		cfg.Rounds = 1 // one round is enough to check that every stage works
	}
	if c.Scale == "" {
		_, _ = fmt.Fprintf(io.Err, "Starting Postgres and Redis in a temporary folder; %d stages take about %s.\n", len(chosen), about(cfg, len(chosen)))
	} else {
		_, _ = fmt.Fprintln(io.Err, "Starting Postgres, Redis and the server in a temporary folder.")
	}
	shards := 1
	if c.Scale != "" && c.Instances > 0 {
		shards = 4 // over three masters, so that one has two
	}
	rig, err := bench.NewRig(ctx, c.Instances, shards)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close(ctx)) }()
	var report interface {
		table
		OK() bool
	}
	sound := true
	if c.Scale == "" {
		var stages *bench.Report
		stages, err = bench.Run(ctx, rig, chosen, cfg)
		if report = stages; err == nil {
			err = keep(stages, io.Err)
		}
	} else {
		var million *bench.MillionReport
		if million, err = c.million(ctx, rig, io.Err, prove); err == nil {
			report, sound = million, million.Sound()
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // the children end with the run, and calls to them then fail
	case err != nil:
		return err
	}
	if err := printReport(io.Out, report, c.JSON); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	switch {
	case !sound:
		return ErrScale // promised on any machine
	case c.Strict && !report.OK():
		return ErrShort
	}
	return nil
}

// keep saves a complete run for `stampede capacity`.
func keep(report *bench.Report, progress stdio.Writer) error {
	file, err := bench.File()
	if err != nil {
		return nil //nolint:nilerr // an account without a home folder measures all the same
	}
	saved, err := report.Save(file)
	if err == nil && saved {
		_, err = fmt.Fprintf(progress, "Kept in %s, for stampede capacity.\n", file)
	}
	return err
}

// million sells ten thousand units to a million shoppers; with --quick, 500 to 5,000, which are enough for four shards.
func (c *Bench) million(ctx context.Context, rig *bench.Rig, progress stdio.Writer, prove Prover) (*bench.MillionReport, error) {
	shoppers, units := 1_000_000, 10_000
	if c.Quick {
		shoppers, units = 5_000, 500
	}
	proved := func(ctx context.Context, databaseURL, redisURL string, item int64, told []proof.ClientRecord) (bool, error) {
		found, err := prove(ctx, Stores{DatabaseURL: databaseURL, RedisURL: redisURL}, item, told)
		if err == nil {
			err = found.Write(progress)
		}
		return err == nil && proof.AllOK(found.Checks), err
	}
	return bench.Million(ctx, rig, shoppers, units, progress, proved)
}

// choose returns the selected stages, or all that --instances allows if none is selected.
func (c *Bench) choose() ([]bench.Stage, error) {
	all := bench.Stages()
	barred := func(s bench.Stage) bool { return s.Single && c.Instances > 0 }
	if len(c.Stages) == 0 {
		return slices.DeleteFunc(all, barred), nil
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	var chosen []bench.Stage
	for _, name := range c.Stages {
		i := slices.Index(names, name)
		if i < 0 {
			return nil, fmt.Errorf("there is no stage %q; the stages are %s", name, strings.Join(names, ", "))
		}
		if barred(all[i]) {
			return nil, fmt.Errorf("the stage %s restarts its server, of which there is one: leave out either it or --instances", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// about estimates a run's duration: two sides per round, and as much again for
// setup, warm-up and fetching paths.
func about(cfg bench.Config, stages int) time.Duration {
	if cfg.Quick {
		return 30 * time.Second
	}
	return (time.Duration(stages*(cfg.Rounds+1)) * 4 * cfg.Round).Round(time.Minute) + time.Minute
}

// BenchPart is the hidden command that bench starts its children with.
type BenchPart struct {
	Name string `arg:"" help:"The part to play."`
}

// Run runs a part until standard input ends.
func (c *BenchPart) Run(ctx context.Context, io Streams) error {
	return bench.RunPart(ctx, c.Name, os.Stdin, io.Out)
}
