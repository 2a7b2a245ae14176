package bench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"stampede/platform/base/disk"
)

// Demand is a sale, and the machines and prices to reckon with.
type Demand struct {
	Shoppers int64         `json:"shoppers"`
	Units    int64         `json:"units"`
	Within   time.Duration `json:"within_ns"`       // in which all attempts are answered and all orders written
	PathsIn  time.Duration `json:"paths_within_ns"` // over which the pages spread their requests for a path
	Cores    int           `json:"cores"`           // of a machine that runs an instance
	Busy     float64       `json:"busy"`            // the share of a core that is planned with
	LineGbit float64       `json:"line_gbit"`       // of the shop's connection
	Hours    float64       `json:"hours"`           // that the machines are rented for
	CoreHour float64       `json:"price_core_hour"` // 0 leaves the money out
	GB       float64       `json:"price_gb"`        // of what is sent; 0 leaves it out
}

// Capacity is what a sale needs, by the costs that a run of bench has measured.
type Capacity struct {
	Demand Demand    `json:"demand"`
	Bench  time.Time `json:"bench_at"`
	// Measured is how many instances on clusters the run had; 0 for one server with NATS inside.
	Measured int    `json:"bench_instances"`
	Needs    []Need `json:"needs"`
	// First is the resource that is used up first where the shop is one machine like the measured one.
	First string  `json:"first_to_run_out"`
	Money float64 `json:"money,omitempty"`
}

// Need is one resource.
type Need struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	From  string  `json:"from"` // the formula with its inputs
	// Load is the need as a share of what one machine like the measured one has; 0 where that says nothing.
	Load float64 `json:"load_of_one_machine,omitempty"`
}

// The resources.
const (
	needServer   = "server"
	needRedis    = "redis"
	needPostgres = "postgres"
	needLineOut  = "bandwidth out"
)

const (
	// Bytes of a request and of its answer on the line, with a browser's headers, TLS records and TCP. A path is asked for
	// with a token of 250 bytes and is 180 long; a winner polls the order three times.
	pathIn, pathOut     = 1100, 900
	rushIn, rushOut     = 900, 700
	orderIn, orderOut   = 900, 1300
	pollsOfWinner       = 3
	bytesOfGrant        = 64  // in GRANTS
	grantsOfMessage     = 256 // in a full batch
	copiesInNATS        = 3
	leastNodes          = 3 // of a cluster of Redis or NATS that survives the loss of one
	leastInstances      = 2 // that survive the loss of one
	bitsOfByte, gigabit = 8, 1e9
)

// processes of the report, by what they are called where they run.
const (
	processRedis    = "redis-server"
	processPostgres = "postgres"
)

// ErrNoBench means that no complete run of bench is on file.
var ErrNoBench = errors.New("no complete run of `stampede bench` is on file: run it once on this machine, which takes some minutes, " +
	"or name the output of `stampede bench --json` with --bench")

// File is where bench keeps its last complete run.
func File() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("bench: no folder for the last run: %w", err)
	}
	return filepath.Join(dir, "stampede", "bench.json"), nil
}

// costs are the stages that a capacity is reckoned from.
var costs = []string{"refusal", "paths", "whole"}

// complete reports whether a capacity can be reckoned from the report.
func (r *Report) complete() bool {
	if r.Quick || r.Cores == 0 || slices.ContainsFunc(costs, func(name string) bool { return r.stage(name) == nil }) {
		return false
	}
	whole := r.stage("whole").OursCPU
	return whole[processRedis] > 0 && whole[processPostgres] > 0
}

func (r *Report) stage(name string) *Result {
	i := slices.IndexFunc(r.Stages, func(s Result) bool { return s.Stage != nil && s.Name == name && s.OursCPU[nameServer] > 0 })
	if i < 0 {
		return nil
	}
	return &r.Stages[i]
}

// Save keeps a report for later capacities, if it is complete.
func (r *Report) Save(file string) (saved bool, err error) {
	if !r.complete() {
		return false, nil
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o750)
	}
	if err == nil {
		err = disk.Replace(file, 0o600, func(w io.Writer) error { _, err := w.Write(raw); return err })
	}
	if err != nil {
		return false, fmt.Errorf("bench: keep the report: %w", err)
	}
	return true, nil
}

// Load reads a report that Save or `bench --json` has written.
func Load(file string) (*Report, error) {
	raw, err := os.ReadFile(file) //nolint:gosec // the operator's choice
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", file, ErrNoBench)
	}
	if err != nil {
		return nil, fmt.Errorf("bench: read the report: %w", err)
	}
	r := new(Report)
	if err := json.Unmarshal(raw, r); err != nil || !r.complete() {
		return nil, fmt.Errorf("%s is no complete report: %w", file, errors.Join(ErrNoBench, err))
	}
	return r, nil
}

// Capacity reckons what a sale needs.
func (r *Report) Capacity(d Demand) *Capacity {
	refusal, paths, whole := r.stage("refusal").OursCPU, r.stage("paths").OursCPU, r.stage("whole").OursCPU
	shoppers, within, pathsIn := float64(d.Shoppers), d.Within.Seconds(), d.PathsIn.Seconds()
	units := min(float64(d.Units), shoppers)
	refused := shoppers - units
	const micro = 1e-6
	c := &Capacity{Demand: d, Bench: r.At, Measured: r.Instances}
	add := func(name string, value float64, unit string, load float64, from string, args ...any) float64 {
		c.Needs = append(c.Needs, Need{Name: name, Value: value, Unit: unit, From: fmt.Sprintf(from, args...), Load: load})
		return value
	}
	up := func(v float64) float64 { return math.Ceil(v - 1e-9) } // what is whole but for a rounding stays

	asking := shoppers * paths[nameServer] * micro / pathsIn
	rushing := (units*whole[nameServer] + refused*refusal[nameServer]) * micro / within
	server := add(needServer, max(asking, rushing)/d.Busy, "cores", max(asking, rushing)/float64(r.Cores),
		"the larger of %s paths × %.1f µs ÷ %s = %.1f and (%s orders × %.1f µs + %s refusals × %.1f µs) ÷ %s = %.1f, %.0f %% busy",
		thousands(shoppers), paths[nameServer], d.PathsIn, asking,
		thousands(units), whole[nameServer], thousands(refused), refusal[nameServer], d.Within, rushing, 100*d.Busy)
	instances := add("instances", max(leastInstances, up(server/float64(d.Cores))), "machines", 0,
		"%.1f cores ÷ %d a machine, at least %d: one may fail", server, d.Cores, leastInstances)

	limits := shoppers * paths[processRedis] * micro / pathsIn
	deciding := units * whole[processRedis] * micro / within
	redis := add(needRedis, max(limits, deciding)/d.Busy, "cores", max(limits, deciding),
		"the larger of %s paths × %.1f µs ÷ %s = %.2f and %s orders × %.1f µs ÷ %s = %.2f, %.0f %% busy; a node uses one core",
		thousands(shoppers), paths[processRedis], d.PathsIn, limits, thousands(units), whole[processRedis], d.Within, deciding, 100*d.Busy)
	add("redis nodes", max(leastNodes, up(redis)), "masters", 0, "%.2f cores ÷ 1, at least %d: a cluster that survives one", redis, leastNodes)
	add("stock shards", max(1, up(deciding/d.Busy)), "of an item", 0,
		"if all %s units are one item, which one node decides: %.2f cores ÷ 1", thousands(units), deciding/d.Busy)
	postgres := add(needPostgres, units*whole[processPostgres]*micro/within/d.Busy, "cores", units*whole[processPostgres]*micro/within/float64(r.Cores),
		"%s orders × %.1f µs ÷ %s, %.0f %% busy", thousands(units), whole[processPostgres], d.Within, 100*d.Busy)
	carried := fmt.Sprintf("%.0f messages/s of %d grants, each synced on %d servers, %.1f MB in all",
		units/grantsOfMessage/within, grantsOfMessage, leastNodes, units*bytesOfGrant*copiesInNATS/1e6)
	if nats := units * whole[nameNATS] * micro / within; nats > 0 {
		add(nameNATS, nats/d.Busy, "cores", nats/float64(r.Cores), "%s orders × %.1f µs ÷ %s, %.0f %% busy: %s",
			thousands(units), whole[nameNATS], d.Within, 100*d.Busy, carried) //nolint:mnd // percent
	} else {
		add(nameNATS, 0, "cores", 0, "inside the server in the run on file (`stampede bench --instances 1` measures a cluster's): %s", carried)
	}

	line := func(name string, path, rush, order float64) {
		perSecond := max(shoppers*path/pathsIn, (shoppers*rush+units*pollsOfWinner*order)/within) * bitsOfByte / gigabit
		add(name, perSecond, "Gbit/s", perSecond/d.LineGbit,
			"the larger of %s paths × %.0f B ÷ %s and (%s rushes × %.0f B + %s orders × %d polls × %.0f B) ÷ %s; without the pages, which a CDN serves",
			thousands(shoppers), path, d.PathsIn, thousands(shoppers), rush, thousands(units), pollsOfWinner, order, d.Within)
	}
	line("bandwidth in", pathIn, rushIn, orderIn)
	line(needLineOut, pathOut, rushOut, orderOut)
	c.First = slices.MaxFunc(c.Needs, func(a, b Need) int { return cmp.Compare(a.Load, b.Load) }).Name

	if d.CoreHour > 0 || d.GB > 0 {
		cores := instances*float64(d.Cores) + max(leastNodes, up(redis)) + max(1, up(postgres)) + leastNodes
		sent := (shoppers*(pathOut+rushOut) + units*pollsOfWinner*orderOut) / 1e9
		c.Money = add("money", cores*d.Hours*d.CoreHour+sent*d.GB, "", 0,
			"%.0f cores (instances, Redis, Postgres, one for each NATS server) × %g h × %g + %.1f GB sent × %g", cores, d.Hours, d.CoreHour, sent, d.GB)
	}
	return c
}

// Write prints the capacity for a person.
func (c *Capacity) Write(w io.Writer) error {
	_, _ = fmt.Fprintf(w, "%s shoppers for %s units within %s, by the costs of %s (instances on clusters: %d)\n\n", thousands(float64(c.Demand.Shoppers)),
		thousands(float64(c.Demand.Units)), c.Demand.Within, c.Bench.Format(time.DateTime), c.Measured)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "RESOURCE\tNEED\t\tFROM")
	for _, n := range c.Needs {
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", n.Name, amount(n.Value), n.Unit, n.From)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	first := c.Needs[slices.IndexFunc(c.Needs, func(n Need) bool { return n.Name == c.First })]
	_, err := fmt.Fprintf(w, "\nOn one machine like the measured one, %s runs out first: the sale needs %s times what there is.\n"+
		"Not measured, and not in here: TLS, nginx, the pages, and shoppers who stay connected.\n", c.First, amount(first.Load))
	return err
}

// amount formats a number with as many digits as it deserves.
func amount(v float64) string {
	switch {
	case v == math.Trunc(v) || v >= 100: //nolint:mnd // three digits
		return thousands(v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
