package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/outbound"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/alarm/channel"
)

// Alarm is `stampede alarm`.
type Alarm struct {
	Test TestAlarms `cmd:"" help:"Send a test message to each address of --alarm-to and --alarm-then, and print the answers; exits 1 if one does not take it."`
}

// TestAlarms is `stampede alarm test`.
type TestAlarms struct {
	To           string `help:"Send from this machine to this address instead, which is in no setting yet, such as wecom://KEY." secret:""`
	Lang         string `default:"zh" enum:"zh,en" help:"Language of the message to --to, zh or en."`
	JSON         bool   `name:"json" help:"Print the answers as JSON."`
	ServerAccess `embed:""`
}

// testTimeout is above that of one attempt, which the server makes to all at once.
const testTimeout = 2 * channel.Timeout

// testedAddresses are the results of a test.
type testedAddresses struct {
	Data []alarm.Tested `json:"data"`
}

var errNoAddress = errors.New("the server sends alarms nowhere: name an address with --alarm-to and start it again")

// Run tests and prints.
func (c *TestAlarms) Run(ctx context.Context, io Streams) error {
	var found testedAddresses
	if c.To != "" {
		one, err := alarm.TestAddress(ctx, c.To, "http://127.0.0.1:8080", c.Lang)
		if err != nil {
			return fmt.Errorf("--to %w", err)
		}
		found.Data = []alarm.Tested{one}
	} else {
		server, token, err := c.Operator(auth.Operator)
		if err != nil {
			return blindError{err}
		}
		api := outbound.NewAPI(server, token, testTimeout)
		defer api.Close()
		if err := api.Call(ctx, "/api/v1/admin/alarms/test", struct{}{}, &found); err != nil {
			return blindError{err}
		}
		if len(found.Data) == 0 {
			return errNoAddress
		}
	}
	if err := printReport(io.Out, found, c.JSON); err != nil {
		return err
	}
	failed := slices.DeleteFunc(found.Data, func(t alarm.Tested) bool { return t.OK })
	if len(failed) > 0 {
		return fmt.Errorf("addresses that did not take the message: %d, see above", len(failed))
	}
	return nil
}

// Write prints a line for each address, and below it what to do.
func (f testedAddresses) Write(w io.Writer) error {
	var b strings.Builder
	for _, t := range f.Data {
		level := map[bool]string{true: "ok", false: "failed"}[t.OK]
		fmt.Fprintf(&b, "%-8s %s: %s\n", level, t.Address, t.Answer)
		if t.Next != "" {
			fmt.Fprintf(&b, "%-8s → %s\n", "", t.Next)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
