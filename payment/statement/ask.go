package statement

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/edge/outbound"
)

// askEvery is how often a program asks for a statement that is being fetched.
const askEvery = time.Second

// Ask has a server compare a day's statements, and settle what is proposed if apply is
// set. It waits until they are fetched. An error means that a statement is not compared.
func Ask(ctx context.Context, server, token, date, provider string, apply bool) (Comparison, error) {
	api := outbound.NewAPI(server, token, waitAtMost+15*time.Second) // for the answer
	defer api.Close()
	day := strings.Replace(path, "{date}", url.PathEscape(date), 1)
	var all Comparison
	err := api.Call(ctx, day, map[string]any{"provider": provider}, &all)
	for err == nil && all.fetching() {
		if err = app.Sleep(ctx, askEvery); err == nil {
			all = Comparison{}
			err = api.Call(ctx, day+"?provider="+url.QueryEscape(provider), nil, &all)
		}
	}
	if err == nil {
		err = all.compared()
	}
	if err == nil && apply {
		all = Comparison{}
		if err = api.Call(ctx, day, map[string]any{"provider": provider, "apply": true}, &all); err == nil {
			err = all.compared()
		}
	}
	return all, err
}

// compared returns an error that names a statement which is not compared.
func (c Comparison) compared() error {
	for _, st := range c.Statements {
		if st.State != "compared" {
			return fmt.Errorf("the statement of %s of %s is not compared: %s: %s", st.Provider, st.Day, st.State, st.Error)
		}
	}
	return nil
}

// Open is how many movements differ.
func (c Comparison) Open() int {
	n := int64(0)
	for _, st := range c.Statements {
		for _, sum := range st.Sums {
			n += sum.Lines
		}
	}
	return int(n)
}

// Next is what an operator does about them.
func (c Comparison) Next() string {
	for _, st := range c.Statements {
		if st.Settled != nil && st.Settled.More || slices.ContainsFunc(st.Differences, func(d Unmatched) bool { return d.Proposal == settleIt }) {
			return "repeat the command with --apply, which settles those marked settle; look up the others in the provider's console"
		}
	}
	return "look each up by its number in the provider's console; no command settles what a person has to find out"
}

// Write prints the comparison for a person.
func (c Comparison) Write(w io.Writer) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) // two spaces between columns
	if len(c.Statements) == 0 {
		_, _ = fmt.Fprintln(tab, "The shop has no payment provider.")
	}
	for _, st := range c.Statements {
		_, _ = fmt.Fprintf(tab, "%s\t%s\t%d lines\n", st.Provider, st.Day, st.Lines)
		if st.Partial {
			_, _ = fmt.Fprintln(tab, "  The statement of the day before is not fetched yet, so that extra rows are not known.")
		}
		for _, sum := range st.Sums {
			_, _ = fmt.Fprintf(tab, "  %s\t%d %ss\tstatement %s\tledger %s\n", sum.Class, sum.Lines, sum.Kind, sum.Stated, sum.Recorded)
		}
		for _, d := range st.Differences {
			_, _ = fmt.Fprintf(tab, "    %s\t%s %s\t%s\t%s\t%s\t%s\t%s\n", d.Class, d.Kind, d.Transaction,
				cmp.Or(d.RefundNo, d.PaymentNo), d.Stated, d.Recorded, d.At, d.Proposal)
		}
		if done := st.Settled; done != nil {
			_, _ = fmt.Fprintf(tab, "  Settled %d.\n", done.Count)
			if done.More {
				_, _ = fmt.Fprintln(tab, "  More is to be settled: repeat the command.")
			}
			for _, failed := range done.Failed {
				_, _ = fmt.Fprintln(tab, "  Not settled:", failed)
			}
		}
	}
	return tab.Flush()
}
