package cli

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/workshop/bench"
)

// Capacity is `stampede capacity`.
type Capacity struct {
	Shoppers    int64         `required:"" help:"How many shoppers rush, each once."`
	Units       int64         `required:"" help:"How many units there are."`
	Within      time.Duration `required:"" help:"In which every attempt is answered and every order written."`
	PathsWithin time.Duration `default:"60s" help:"Over which the pages spread their requests for rush paths, which begin 2 minutes before the opening."`
	Cores       int           `default:"8" help:"Cores of a machine that runs an instance."`
	Busy        float64       `default:"0.7" help:"Share of a core that is planned with; the rest is for what was not foreseen."`
	LineGbit    float64       `default:"1" help:"The shop's connection in Gbit/s, to say what runs out first."`
	Hours       float64       `default:"1" help:"How long the machines are rented for."`
	CoreHour    float64       `name:"price-core-hour" default:"0" help:"Price of a core for an hour, in any currency. 0 leaves it out."`
	GB          float64       `name:"price-gb" default:"0" help:"Price of a GB sent. 0 leaves it out."`
	Bench       string        `type:"path" placeholder:"FILE" help:"A report of bench --json. Default: the last complete run on this machine."`
	JSON        bool          `name:"json" help:"Print the capacity as JSON."`
}

// mostShoppers is more than there are people, and far below what a rounding would show.
const mostShoppers = 10_000_000_000

// Validate checks the flags.
func (c *Capacity) Validate() error {
	switch {
	case c.Shoppers < 1 || c.Shoppers > mostShoppers:
		return fmt.Errorf("--shoppers must be between 1 and %d, not %d", int64(mostShoppers), c.Shoppers)
	case c.Units < 1 || c.Units > mostShoppers:
		return fmt.Errorf("--units must be between 1 and %d, not %d", int64(mostShoppers), c.Units)
	case c.Within <= 0 || c.PathsWithin <= 0:
		return fmt.Errorf("--within and --paths-within must be above 0, not %s and %s", c.Within, c.PathsWithin)
	case c.Cores < 1:
		return fmt.Errorf("--cores must be 1 or more, not %d", c.Cores)
	// Written so that NaN, which kong parses, is refused.
	case !(c.Busy > 0 && c.Busy <= 1): //nolint:staticcheck // see above
		return fmt.Errorf("--busy must be a share above 0 and up to 1, not %g", c.Busy)
	case !(c.LineGbit > 0 && c.Hours > 0): //nolint:staticcheck // likewise
		return fmt.Errorf("--line-gbit and --hours must be above 0, not %g and %g", c.LineGbit, c.Hours)
	case !(c.CoreHour >= 0 && c.GB >= 0): //nolint:staticcheck // likewise
		return fmt.Errorf("prices must be 0 or more, not %g and %g", c.CoreHour, c.GB)
	}
	return nil
}

// Run reckons from the report and prints.
func (c *Capacity) Run(_ context.Context, io Streams) error {
	file := c.Bench
	if file == "" {
		var err error
		if file, err = bench.File(); err != nil {
			return err
		}
	}
	report, err := bench.Load(file)
	if err != nil {
		return err
	}
	return printReport(io.Out, report.Capacity(bench.Demand{
		Shoppers: c.Shoppers, Units: c.Units, Within: c.Within, PathsIn: c.PathsWithin, Cores: c.Cores, Busy: c.Busy,
		LineGbit: c.LineGbit, Hours: c.Hours, CoreHour: c.CoreHour, GB: c.GB,
	}), c.JSON)
}
