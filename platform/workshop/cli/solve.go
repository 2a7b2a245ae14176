package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"stampede/platform/identity/humancheck"
)

// Solve is `stampede solve`: the proof of work of a human check, for a shell.
type Solve struct {
	Answer string `arg:"" help:"The answer human-check-required, or a challenge, as JSON."`
}

// Run prints the value of the header Human-Check.
func (c *Solve) Run(ctx context.Context, io Streams) error {
	var said struct {
		humancheck.Challenge
		Inner humancheck.Challenge `json:"challenge"`
	}
	asked := &said.Inner
	if err := json.Unmarshal([]byte(c.Answer), &said); err != nil {
		asked = &said.Challenge // whose challenge is a text
		if json.Unmarshal([]byte(c.Answer), asked) != nil {
			return errors.New("the argument must be the JSON of an answer human-check-required or of a challenge")
		}
	}
	if asked.Kind != humancheck.Pow {
		return fmt.Errorf("a program solves challenges of kind pow only, not %q", asked.Kind)
	}
	header, err := humancheck.Solve(ctx, asked.Challenge, asked.Difficulty)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(io.Out, header)
	return err
}
