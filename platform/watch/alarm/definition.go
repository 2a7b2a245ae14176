package alarm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"stampede/platform/store/pg"
)

// Severity says whether the alarm may wait until the morning.
type Severity string

// The severities.
const (
	Warning  Severity = "warning"  // nothing is lost; check during working hours
	Critical Severity = "critical" // shoppers or money are affected now
)

// Code names the problem. It is part of the API: receivers of the webhook and alert
// rules match it, so a code never changes its meaning.
type Code string

// Definition is a code with its texts for the person on call. The package that
// raises it defines it.
type Definition struct {
	Code     Code
	Severity Severity
	Meaning  string // the problem, in sentences
	Action   string // what to do next, step by step
}

// defined contains every definition of the program. It is complete before main runs.
var defined = map[Code]*Definition{}

// Define makes a definition and adds it to the list that operators read. Call it for
// a package's variables only. A second definition of a code, and one without texts,
// are programming errors.
func Define(code Code, severity Severity, meaning, action string) *Definition {
	if defined[code] != nil || !strings.HasSuffix(meaning, ".") || !strings.HasSuffix(action, ".") {
		panic(fmt.Sprintf("alarm: %s is defined twice or not explained", code))
	}
	d := &Definition{code, severity, meaning, action}
	defined[code] = d
	return d
}

// Definitions lists every definition of the program, ordered by code.
func Definitions() []*Definition {
	return slices.SortedFunc(maps.Values(defined), func(a, b *Definition) int { return cmp.Compare(a.Code, b.Code) })
}

// Raise records an occurrence about a subject, with the details of this finding. It
// writes one row and posts nothing, so call it in the transaction of the finding;
// the Notifier posts. A repeated alarm keeps its acknowledgement while it continues,
// and loses it when it returns after an hour's silence: that is a new incident.
func (d *Definition) Raise(ctx context.Context, db pg.DB, subject, detail string) error {
	return record(ctx, db, newOccurrence(d, subject, detail))
}

// codeTable is the list for the API's documentation.
func codeTable() string {
	var b strings.Builder
	b.WriteString("| code | severity | problem | what to do |\n|---|---|---|---|\n")
	for _, d := range Definitions() {
		b.WriteString("| `" + string(d.Code) + "` | " + string(d.Severity) + " | " + d.Meaning + " | " + d.Action + " |\n")
	}
	return b.String()
}
