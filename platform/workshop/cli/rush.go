package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/term"

	"stampede/platform/edge/auth"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/loadgen"
)

// Rush is `stampede rush`.
type Rush struct {
	Demo       bool                  `help:"Plan a small sale that opens in seconds and rush it; needs no other flag against stampede run."`
	Item       int64                 `help:"The item to rush; GET /api/v1/sessions lists the items on sale."`
	URL        string                `env:"STAMPEDE_URL" help:"The server. Default: the one that --data belongs to, else http://127.0.0.1:8080." found:""`
	Shoppers   int                   `default:"2000" help:"How many distinct users rush, 1 to 10000000."`
	Rate       string                `default:"max" help:"Attempts per second; max is as fast as the connections allow."`
	Pay        string                `default:"80%" help:"Share of the winners that pay, as 80% or 0.8."`
	Conns      int                   `default:"256" help:"HTTP connections, 1 to 10000."`
	Sockets    int                   `default:"-1" help:"Shoppers that also hold a WebSocket; -1 is all, as far as file descriptors allow."`
	FirstUser  int64                 `default:"0" help:"Id of the first shopper; 0 takes a range that no other run used."`
	JSON       bool                  `name:"json" help:"Print the report as JSON."`
	Log        string                `type:"path" help:"Write the client log, which records every answer that shoppers got, to this file."`
	SigningKey string                `env:"STAMPEDE_SIGNING_KEY" help:"The server's signing key, to act as shoppers. Default: the one in --data." secret:"" found:""`
	Require    []loadgen.Requirement `help:"Exit 1 unless the run meets these: p99<200ms, errors<0.1%, granted=300, rate>=1000, …; repeated or separated by commas." placeholder:"BOUND"`
	Books      `embed:""`
}

var (
	// ErrBroken means that the run broke a promise or the books do not prove.
	ErrBroken = errors.New("a promise was broken, see above")
	// errDeserted means that the server went away before every outcome was known.
	errDeserted = errors.New("the server went away, see above")
	errMissed   = errors.New("a requirement is missed, see above")
)

// Demo's size and timing: short, with more shoppers than units.
const (
	demoStock    = 100
	demoOpensIn  = 8 * time.Second
	demoOpen     = 10 * time.Minute
	demoPayAfter = 5 * time.Minute
)

// shopperTokenLife outlives a run: even ten million attempts take minutes, and
// a token that expired on the way would count as a refusal by the server.
const shopperTokenLife = 2 * time.Hour

// Validate checks the flags before anything is looked up or sent.
func (c *Rush) Validate() error {
	cfg, err := c.play(Noted{})
	if err != nil {
		return err
	}
	if c.Demo {
		cfg.ItemID = 1 // it is planned later
	}
	cfg.Token = func(int64) (string, error) { return "", nil } // the key is looked up later
	return cfg.Validate()
}

// Run plays, reports, and proves the books if the stores are known.
func (c *Rush) Run(ctx context.Context, io Streams, prove Prover, flags given) error {
	stack, err := knownStack(c.Data)
	if err != nil {
		return err
	}
	source := flags.keySource(c.SigningKey != "", c.Data)
	key, err := stack.key(c.SigningKey, c.Data)
	if err != nil {
		return err
	}
	cfg, err := c.play(stack)
	if err != nil {
		return err
	}
	if source != "" {
		_, _ = fmt.Fprintln(io.Err, source)
	}
	tokens := auth.NewTokens([]byte(key), time.Now)
	cfg.Token = func(user int64) (string, error) {
		return tokens.Mint(auth.Principal{UserID: user, Role: auth.Shopper}, shopperTokenLife)
	}
	cfg.Progress = io.Err
	if f, ok := io.Err.(*os.File); ok {
		cfg.Terminal = term.IsTerminal(int(f.Fd()))
	}
	if c.Demo {
		if cfg.ItemID, err = planDemo(ctx, cfg.BaseURL, tokens, io.Err); err != nil {
			return err
		}
	}
	report, err := loadgen.Run(ctx, cfg)
	switch {
	case errors.Is(err, loadgen.ErrInterrupted):
		// Orders are still in flight: run verify --client-log with the log later. The
		// figures are those of a part.
		c.Require = nil
		if broken := c.finish(io.Out, report, nil); broken != nil {
			return errors.Join(broken, err)
		}
		return interruptedError{err}
	case err != nil && ctx.Err() != nil:
		return interruptedError{err}
	case err != nil:
		return err
	}
	if code, all := report.NoPath(); all {
		return fmt.Errorf("no shopper got a rush path: the server answered %s; is item %d on sale, and is this the server's signing key?", code, cfg.ItemID)
	}
	if cfg.BaseURL != stack.server("") && !flags["data"] {
		stack.DatabaseURL, stack.RedisURL = "", "" // those of another shop than the rushed one
	}
	stores := c.stores(stack)
	return c.finish(io.Out, report, func() (Evidence, error) {
		if stores.Check() != nil {
			return Evidence{}, errNoStores
		}
		if err := reach(ctx, database(stores.DatabaseURL), redisStore(stores.RedisURL)); err != nil {
			return Evidence{}, unreached{err}
		}
		return prove(ctx, stores, report.ItemID, report.Entries)
	})
}

// play converts the flags to loadgen's configuration, and refuses contradictory
// ones before anything is sent.
func (c *Rush) play(stack Noted) (loadgen.Config, error) {
	cfg := loadgen.DefaultConfig()
	cfg.ItemID, cfg.Shoppers, cfg.Connections, cfg.Sockets = c.Item, c.Shoppers, c.Conns, c.Sockets
	cfg.FirstUser = c.FirstUser
	cfg.BaseURL = stack.server(c.URL)
	if c.FirstUser == 0 {
		// An id for each nanosecond: the ids of a million shoppers overlap only with
		// those of a run that began within a millisecond, so that several items can
		// be rushed at once.
		cfg.FirstUser = time.Now().UnixNano()
	}
	if c.Rate != "max" {
		rate, err := strconv.ParseFloat(c.Rate, 64)
		if err != nil || rate <= 0 || math.IsNaN(rate) || math.IsInf(rate, 0) {
			return cfg, fmt.Errorf("--rate must be attempts per second or max, not %q", c.Rate)
		}
		cfg.Rate = rate
	}
	var err error
	if cfg.PayShare, err = loadgen.ParseShare(c.Pay); err != nil {
		return cfg, fmt.Errorf("--pay must be a share such as 80%% or 0.8, not %q", c.Pay)
	}
	switch {
	case c.Item == 0 && !c.Demo:
		return cfg, errors.New("name the item with --item ID, or let --demo plan a sale")
	case c.Item != 0 && c.Demo:
		return cfg, errors.New("--demo plans a new sale: give either --item or --demo")
	}
	return cfg, nil
}

// planDemo plans a small sale as an operator would, over HTTP, and returns its
// item.
func planDemo(ctx context.Context, baseURL string, tokens *auth.Tokens, progress io.Writer) (int64, error) {
	token, err := tokens.Mint(auth.Principal{UserID: 1, Role: auth.Operator}, time.Hour)
	if err != nil {
		return 0, err
	}
	planned, err := loadgen.PlanSale(ctx, baseURL, token, loadgen.Sale{
		Name: "Demo rush", Title: "Demo phone", Stock: demoStock, OpensAt: time.Now().Add(demoOpensIn), Open: demoOpen, PayAfter: demoPayAfter,
	})
	if err != nil {
		return 0, fmt.Errorf("is the server running at %s? %w", baseURL, err)
	}
	_, _ = fmt.Fprintf(progress, "Planned a sale of %d units, item %s; it opens in %s.\n", demoStock, planned.ItemID, demoOpensIn)
	if n := len(planned.Warnings); n > 0 {
		_, _ = fmt.Fprintf(progress, "Its preflight has %d warnings or stops; `stampede preflight --activity %s` shows them.\n", n, planned.ActivityID)
	}
	return strconv.ParseInt(planned.ItemID, 10, 64)
}

// unreached is why the stores of the rushed item could not be reached.
type unreached struct{ error }

// errNoStores means that the books of the rushed item are elsewhere.
var errNoStores = errors.New("no stores are known")

// finish prints the report, writes the log and proves the books of the item against
// the client log, unless prove is nil.
func (c *Rush) finish(out io.Writer, report *loadgen.Report, prove func() (Evidence, error)) error {
	if c.Log != "" {
		if err := loadgen.WriteLogFile(c.Log, report.Entries); err != nil {
			return err
		}
	}
	result := struct {
		*loadgen.Report
		BooksProved *bool `json:"books_proved"` // null if they were not checked
		*Evidence         // the books of the item, and the checks

		Requirements []loadgen.Verdict `json:"requirements,omitempty"`
	}{Report: report}
	table := io.Discard // with --json, standard output contains only the document
	if !c.JSON {
		table = out
		if err := report.Write(out); err != nil {
			return err
		}
	}
	var blind error
	if prove != nil {
		found, err := prove()
		_, away := errors.AsType[unreached](err)
		switch {
		case errors.Is(err, errNoStores):
			_, _ = fmt.Fprintln(table, "\nThe books were not proved: give --data with the folder of `stampede run`, or run `stampede verify` where the stores are.")
		case away && report.NotKnown != nil:
			// The stores went away with the server, as the report says, with what to do.
		case err != nil:
			blind = fmt.Errorf("prove the books: %w", err)
		default:
			ok := proof.AllOK(found.Checks)
			result.BooksProved, result.Evidence = &ok, &found
			_, _ = fmt.Fprintln(table)
			if err := found.Write(table); err != nil {
				return err
			}
		}
	}
	for _, r := range c.Require {
		v := r.Judge(report)
		result.Requirements = append(result.Requirements, v)
		if err := v.Write(table); err != nil {
			return err
		}
	}
	if c.JSON {
		if err := printJSON(out, result); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	if slices.ContainsFunc(result.Requirements, func(v loadgen.Verdict) bool { return !v.Met }) {
		blind = errors.Join(errMissed, blind)
	}
	switch {
	case len(report.Violations) > 0 || result.BooksProved != nil && !*result.BooksProved:
		return errors.Join(ErrBroken, blind)
	case report.NotKnown != nil:
		return errors.Join(errDeserted, blind)
	}
	return blind
}
