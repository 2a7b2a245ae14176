package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/outbound"
	"stampede/platform/watch/preflight"
)

// preflightAnswer is the part of the server's answer that is printed.
type preflightAnswer struct {
	Level preflight.Level  `json:"level"`
	Lines []preflight.Line `json:"lines"`
}

// Preflight is `stampede preflight`.
type Preflight struct {
	Activity     int64 `required:"" help:"The activity's id."`
	Shoppers     int   `help:"How many shoppers are expected at the opening."`
	JSON         bool  `name:"json" help:"Print the lines as JSON."`
	ServerAccess `embed:""`
}

// Validate checks the numbers before anything is asked.
func (c *Preflight) Validate() error {
	if c.Activity < 1 || c.Shoppers < 0 {
		return errors.New("--activity must be an id such as 12, --shoppers a positive number")
	}
	return nil
}

// errNotReady makes the command exit 1; the table says why.
var errNotReady = errors.New("the sale is not ready, see the stops above")

// preflightTimeout is far above the 3 s of the server's checks.
const preflightTimeout = 30 * time.Second

// Run asks and prints.
func (c *Preflight) Run(ctx context.Context, io Streams) error {
	server, token, err := c.Operator(auth.Viewer)
	if err != nil {
		return blindError{err}
	}
	api := outbound.NewAPI(server, token, preflightTimeout)
	defer api.Close()
	path := fmt.Sprintf("/api/v1/admin/activities/%d/preflight", c.Activity)
	if c.Shoppers > 0 {
		path += fmt.Sprintf("?shoppers=%d", c.Shoppers)
	}
	var answer preflightAnswer
	if err = api.Call(ctx, path, nil, &answer); err == nil {
		err = printReport(io.Out, answer, c.JSON)
	}
	switch {
	case err != nil:
		return blindError{err}
	case answer.Level == preflight.Stop:
		return errNotReady
	}
	return nil
}

// Write prints the lines for a person.
func (a preflightAnswer) Write(w io.Writer) error {
	var b strings.Builder
	for _, l := range a.Lines {
		fmt.Fprintf(&b, "%-8s %s", l.Level, l.Title)
		if l.Subject != "" {
			fmt.Fprintf(&b, " (%s)", l.Subject)
		}
		if l.Found != "" {
			fmt.Fprintf(&b, ": %s", l.Found)
		}
		b.WriteByte('\n')
		if l.Next != "" {
			fmt.Fprintf(&b, "%-8s → %s\n", "", l.Next)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
