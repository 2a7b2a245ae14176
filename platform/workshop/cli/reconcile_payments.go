package cli

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/edge/auth"
)

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
	if err == nil {
		err = printReport(io.Out, found, c.JSON)
	}
	if err != nil {
		return blindError{err}
	}
	return remaining(found)
}
