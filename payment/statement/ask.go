package statement

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/edge/outbound"
)

const (
	// askEvery is how often a program asks for a statement that is being fetched.
	askEvery = time.Second
	// maxComparisonBytes is far above a comparison, which lists 500 rows of each statement.
	maxComparisonBytes = 16 << 20
)

// Ask has a server compare a day's statements, and settle what is proposed if apply is
// set. It waits until they are fetched. An error means that a statement is not compared.
func Ask(ctx context.Context, server, token, date, provider string, apply bool) (Comparison, error) {
	c := caller{
		Client: outbound.New(outbound.Config{Peer: "server", Timeout: waitAtMost + 15*time.Second, Attempts: 1, MaxBytes: maxComparisonBytes}), //nolint:mnd // for the answer
		url:    server + strings.Replace(path, "{date}", url.PathEscape(date), 1), token: token,
	}
	defer c.CloseIdleConnections()
	all, err := c.call(ctx, map[string]any{"provider": provider})
	for err == nil && all.fetching() {
		if err = app.Sleep(ctx, askEvery); err == nil {
			c.query = "?provider=" + url.QueryEscape(provider)
			all, err = c.call(ctx, nil)
		}
	}
	c.query = ""
	if err == nil {
		err = all.compared()
	}
	if err == nil && apply {
		if all, err = c.call(ctx, map[string]any{"provider": provider, "apply": true}); err == nil {
			err = all.compared()
		}
	}
	return all, err
}

// caller calls a server's route.
type caller struct {
	*outbound.Client
	url, query, token string
}

// call posts a body, or asks without one.
func (c caller) call(ctx context.Context, body map[string]any) (all Comparison, err error) {
	r := outbound.Request{URL: c.url + c.query, Head: func(h http.Header) { h.Set("Authorization", "Bearer "+c.token) }}
	if body != nil {
		if r.Body, err = json.Marshal(body); err != nil {
			return all, err
		}
		r.Type = "application/json"
	}
	err = c.Do(ctx, r, func(r outbound.Reply) error {
		if r.Status == http.StatusOK {
			return json.Unmarshal(r.Body, &all)
		}
		var problem struct{ Code, Detail string }
		if err := json.Unmarshal(r.Body, &problem); err != nil {
			return fmt.Errorf("the server answers with status %d; is it the server's address?", r.Status)
		}
		return fmt.Errorf("the server answers %s: %s", problem.Code, problem.Detail)
	})
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

// Write prints the comparison for a person.
func (c Comparison) Write(w io.Writer) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) //nolint:mnd // two spaces between columns
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
			no := d.PaymentNo
			if d.RefundNo != "" {
				no = d.RefundNo
			}
			_, _ = fmt.Fprintf(tab, "    %s\t%s %s\t%s\t%s\t%s\t%s\t%s\n", d.Class, d.Kind, d.Transaction, no, d.Stated, d.Recorded, d.At, d.Proposal)
		}
		if done := st.Settled; done != nil {
			_, _ = fmt.Fprintf(tab, "  Settled %d.\n", done.Count)
			for _, failed := range done.Failed {
				_, _ = fmt.Fprintln(tab, "  Not settled:", failed)
			}
		}
	}
	return tab.Flush()
}
