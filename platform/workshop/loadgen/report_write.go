package loadgen

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"stampede/platform/watch/proof"
)

// Write prints the report for a person.
func (rep *Report) Write(w io.Writer) error {
	var b strings.Builder
	var sent int64
	for _, n := range rep.Answers {
		sent += n
	}
	who := strconv.Itoa(rep.Shoppers)
	if sent < int64(rep.Shoppers) { // the run was interrupted
		who = fmt.Sprintf("%d of %d", sent, rep.Shoppers)
	}
	fmt.Fprintf(&b, "%s shoppers rushed item %d %q in %.2f s: %.0f answers/s\n\n", who, rep.ItemID, rep.Title, rep.Seconds, rep.PerSecond)
	rep.writeDoor(&b)
	b.WriteString("answers\n")
	width := 18 // as in the other tables
	for code := range rep.Answers {
		width = max(width, len(code))
	}
	for code, n := range byCount(rep.Answers) {
		fmt.Fprintf(&b, "  %-*s %9d  %5.1f %%\n", width, code, n, 100*float64(n)/float64(max(rep.Shoppers, 1)))
	}
	fmt.Fprintf(&b, "\n%-15s %9s %9s %9s %9s %9s\n", "latency (ms)", "count", "p50", "p90", "p99", "max")
	for _, name := range []string{"path", "refusal", "grant", "order visible", "push"} {
		if l := rep.Latency[name]; l.Count > 0 {
			fmt.Fprintf(&b, "  %-13s %9d %9.1f %9.1f %9.1f %9.1f\n", name, l.Count, l.P50, l.P90, l.P99, l.Max)
		}
	}
	if rep.MaxConcurrent > 0 {
		fmt.Fprintf(&b, "suggested --max-concurrent: %d (paths a second × their p99, Little's law)\n", rep.MaxConcurrent)
	}
	if len(rep.Outcomes) > 0 {
		which := "every order was"
		if rep.NotKnown != nil || len(rep.Violations) > 0 {
			which = "the orders seen were"
		}
		if b.WriteString("\nwinners"); rep.AllVisible > 0 {
			fmt.Fprintf(&b, ": %s visible %.2f s after the first attempt", which, rep.AllVisible)
		}
		b.WriteByte('\n')
		for code, n := range byCount(rep.Outcomes) {
			fmt.Fprintf(&b, "  %-18s %9d\n", code, n)
		}
	}
	for code, n := range byCount(rep.Troubles) {
		fmt.Fprintf(&b, "note: %s (%d times)\n", code, n)
	}
	if n := rep.NotKnown; n != nil {
		fmt.Fprintf(&b, "NOT KNOWN: the server went away before it reported the outcome of %s: start it again, then run stampede verify, with --client-log FILE if this run had --log FILE\n",
			someOf(n.First, n.Count))
	}
	rep.writeViolations(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeViolations prints each kind of broken promise once, with its count.
func (rep *Report) writeViolations(b *strings.Builder) {
	var details []string
	orders := map[string][]string{}
	for _, v := range rep.Violations {
		if len(orders[v.Detail]) == 0 {
			details = append(details, v.Detail)
		}
		orders[v.Detail] = append(orders[v.Detail], v.OrderNo)
	}
	for _, detail := range details {
		of := orders[detail]
		fmt.Fprintf(b, "BROKEN PROMISE, %d times: %s: %s\n", len(of), detail, someOf(of[:min(len(of), shownNumbers)], len(of)))
	}
}

// someOf lists the first of n orders.
func someOf(first []string, n int) string {
	text := "order "
	if n > 1 {
		text = "orders "
	}
	text += strings.Join(first, ", ")
	if more := n - len(first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// writeDoor prints what was done before the rush.
func (rep *Report) writeDoor(b *strings.Builder) {
	d := rep.Door
	if d == nil {
		return
	}
	fmt.Fprintf(b, "at the door, %.2f s ahead of the rush:\n", d.Seconds)
	if d.Reserved > 0 || len(d.Refused) > 0 {
		fmt.Fprintf(b, "  %-18s %9d\n", "reserved", d.Reserved)
	}
	for code, n := range byCount(d.Refused) {
		fmt.Fprintf(b, "  %-18s %9d  no reservation\n", code, n)
	}
	if d.Proofs.Count > 0 {
		fmt.Fprintf(b, "  %-18s %9d  of %d bits; each took a core here p50 %.1f ms, p99 %.1f ms\n",
			"proofs of work", d.Proofs.Count, d.Difficulty, d.Proofs.P50, d.Proofs.P99)
	}
	b.WriteByte('\n')
}

// byCount goes through the codes by count, largest first, then by name, so that two
// reports of the same run are equal.
func byCount(m map[string]int64) iter.Seq2[string, int64] {
	codes := slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), strings.Compare(a, b)) })
	return func(yield func(string, int64) bool) {
		for _, code := range codes {
			if !yield(code, m[code]) {
				return
			}
		}
	}
}

// WriteLogFile writes entries as JSON lines, for verify --client-log.
func WriteLogFile(name string, entries []proof.ClientRecord) error {
	f, err := os.Create(filepath.Clean(name))
	if err != nil {
		return fmt.Errorf("write the client log: %w", err)
	}
	buf := bufio.NewWriter(f)
	enc := json.NewEncoder(buf)
	for _, e := range entries {
		if err := enc.Encode(e); err != nil {
			return errors.Join(fmt.Errorf("write the client log: %w", err), f.Close())
		}
	}
	return errors.Join(buf.Flush(), f.Close())
}

// ReadLogFile reads what WriteLogFile wrote. It keeps the whole log in memory, some 100
// bytes per shopper, because the checks look up entries by number.
func ReadLogFile(name string) ([]proof.ClientRecord, error) {
	f, err := os.Open(filepath.Clean(name))
	if err != nil {
		return nil, fmt.Errorf("loadgen: open client log: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	var entries []proof.ClientRecord
	dec := json.NewDecoder(f)
	for {
		var e proof.ClientRecord
		err := dec.Decode(&e)
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, fmt.Errorf("loadgen: line %d of the client log: %w", len(entries)+1, err)
		}
		entries = append(entries, e)
	}
}
