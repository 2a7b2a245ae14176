package proof

import (
	"errors"
	"fmt"
)

// Findings are the violations that the queries of a check found. The zero value is ready.
type Findings struct {
	all []Violation
	err error
}

// Add adds violations, or the error for which they could not be looked for.
func (f *Findings) Add(found []Violation, err error) {
	f.all, f.err = append(f.all, found...), errors.Join(f.err, err)
}

// Find adds a violation for each row of a query, as say describes it.
func Find[Row any](f *Findings, say func(Row) (subject, detail string)) func([]Row, error) {
	return func(rows []Row, err error) {
		f.Add(nil, err)
		for _, r := range rows {
			subject, detail := say(r)
			f.all = append(f.all, Violation{Subject: subject, Detail: detail})
		}
	}
}

// All returns the violations, or an error if a query failed; what names the check.
func (f *Findings) All(what string) ([]Violation, error) {
	if f.err != nil {
		return nil, fmt.Errorf("%s: %w", what, f.err)
	}
	return f.all, nil
}
