package cli

import (
	"encoding/json"
	"io"
)

// table is a report that prints itself for a person.
type table interface{ Write(w io.Writer) error }

// printReport prints a report as its own table, or with --json as its fields.
func printReport(w io.Writer, report table, asJSON bool) error {
	if asJSON {
		return printJSON(w, report)
	}
	return report.Write(w)
}

// printJSON prints JSON for other programs, indented so that a person can read it too.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false) // no page contains it
	return enc.Encode(v)
}
