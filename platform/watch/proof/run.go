package proof

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Outcome is one check's result.
type Outcome struct {
	ID         string        `json:"id"`
	Name       string        `json:"name" example:"never-oversold"`
	Violations []Violation   `json:"violations"`
	Error      string        `json:"error,omitempty"` // the check could not run
	Took       time.Duration `json:"took_ns"`
}

// OK reports whether the check ran and found nothing.
func (o Outcome) OK() bool { return o.Error == "" && len(o.Violations) == 0 }

// Run runs every check, one after the other so that they do not slow each other
// down, and returns the outcomes ordered by id. Several checks may share an id: an
// invariant that two modules prove in parts.
func Run(ctx context.Context, checks []Check) []Outcome {
	return Follow(ctx, checks, func(int, Check) {})
}

// Follow is Run that calls before with each check and the number of those done.
func Follow(ctx context.Context, checks []Check, before func(done int, next Check)) []Outcome {
	outcomes := make([]Outcome, 0, len(checks))
	for i, c := range checks {
		before(i, c)
		began := time.Now()
		violations, err := c.Run(ctx)
		o := Outcome{ID: c.ID, Name: c.Name, Violations: violations, Took: time.Since(began)}
		if o.Violations == nil {
			o.Violations = []Violation{}
		}
		if err != nil {
			o.Error = err.Error()
		}
		outcomes = append(outcomes, o)
	}
	slices.SortStableFunc(outcomes, func(a, b Outcome) int { return strings.Compare(a.ID, b.ID) })
	return outcomes
}

// AllOK reports whether every check ran and found nothing.
func AllOK(outcomes []Outcome) bool {
	return !slices.ContainsFunc(outcomes, func(o Outcome) bool { return !o.OK() })
}

// shownViolations bounds the violations printed for one check; the count gives the
// total.
const shownViolations = 20

// Write prints the outcomes as a table, each violation below its check.
func Write(w io.Writer, outcomes []Outcome) error {
	var b strings.Builder
	width := 0
	for _, o := range outcomes {
		width = max(width, len(o.Name))
	}
	for _, o := range outcomes {
		verdict := "ok"
		switch {
		case o.Error != "":
			verdict = "COULD NOT BE CHECKED: " + o.Error
		case len(o.Violations) > 0:
			verdict = fmt.Sprintf("VIOLATED %d times", len(o.Violations))
		}
		fmt.Fprintf(&b, "%-3s %-*s  %s\n", o.ID, width, o.Name, verdict)
		for i, v := range o.Violations {
			if i == shownViolations {
				fmt.Fprintf(&b, "      … and %d more\n", len(o.Violations)-i)
				break
			}
			fmt.Fprintf(&b, "      %s: %s\n", v.Subject, v.Detail)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
