package cli

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/edge/auth"
)

// Reconciler compares Redis with Postgres in the given stores, for one item or,
// with 0, for all, and repairs what is provably safe if repair is set.
type Reconciler func(ctx context.Context, stores Stores, item int64, repair bool) (Differences, error)

// Differences are a reconciler's result. Its JSON is stable.
type Differences interface {
	table
	Open() int    // how many are not repaired
	Next() string // what to do about them
}

// ReconcileAll is `stampede reconcile`, whose first command is the default.
type ReconcileAll struct {
	Stores   Reconcile         `cmd:"" default:"withargs" help:"Compare Redis with the orders in Postgres, and repair what is provably safe; the default."`
	Payments ReconcilePayments `cmd:"" help:"Have the server compare the payment providers' statements of a day with its ledger, and settle what is proposed."`
}

// Reconcile is `stampede reconcile stores`.
type Reconcile struct {
	Books  `embed:""`
	Item   int64 `help:"Only this item."`
	Repair bool  `help:"Repair in Redis what an order in Postgres proves; the rest raises an alarm. Recorded in the audit log."`
	DryRun bool  `help:"With --repair: only show what it would do."`
	JSON   bool  `name:"json" help:"Print the differences as JSON."`
}

// settle prints the differences, and makes a reconciliation exit 1 while some are open.
func settle(io Streams, asJSON bool, found Differences, err error) error {
	if err == nil {
		err = printReport(io.Out, found, asJSON)
	}
	if err != nil {
		return blindError{err}
	}
	if n := found.Open(); n > 0 {
		return fmt.Errorf("%d differences remain: %s", n, found.Next())
	}
	return nil
}

// Run reconciles.
func (c *Reconcile) Run(ctx context.Context, io Streams, reconcile Reconciler) error {
	stores, err := c.find(ctx)
	if err != nil {
		return blindError{err}
	}
	found, err := reconcile(ctx, stores, c.Item, c.Repair && !c.DryRun)
	return settle(io, c.JSON, found, err)
}

// StatementComparer has the server at a URL compare a day's statements of its payment
// providers with its ledger, of one provider or of all, and settle what is proposed if
// apply is set.
type StatementComparer func(ctx context.Context, server, token, date, provider string, apply bool) (Differences, error)

// ReconcilePayments is `stampede reconcile payments`.
type ReconcilePayments struct {
	Date         string        `required:"" help:"The shop's day, YYYY-MM-DD; it must be over."`
	Provider     string        `help:"Only this provider."`
	Apply        bool          `help:"Settle what is proposed, as lost callbacks would have. Recorded in the audit log."`
	JSON         bool          `name:"json" help:"Print the comparison as JSON."`
	Wait         time.Duration `default:"15m" help:"How long to wait for the statements, as a duration."`
	ServerAccess `embed:""`
}

// Validate checks the date before anything is asked.
func (c *ReconcilePayments) Validate() error {
	if _, err := time.Parse(time.DateOnly, c.Date); err != nil {
		return fmt.Errorf("--date must be a day such as 2026-11-22, not %q", c.Date)
	}
	if c.Wait <= 0 {
		return fmt.Errorf("--wait must be a positive duration, not %s", c.Wait)
	}
	return nil
}

// Run compares.
func (c *ReconcilePayments) Run(ctx context.Context, io Streams, compare StatementComparer) error {
	server, token, err := c.Operator(auth.Operator)
	if err != nil {
		return blindError{err}
	}
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	found, err := compare(ctx, server, token, c.Date, c.Provider, c.Apply)
	return settle(io, c.JSON, found, err)
}
