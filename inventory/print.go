package inventory

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// PrintableBooks are the rows of Books, of one item or with 0 of all, and a
// function that prints them as a table.
func (s *Service) PrintableBooks(ctx context.Context, item int64) ([]BookRow, func(io.Writer) error, error) {
	rows, err := s.Books(ctx)
	if item != 0 {
		rows = slices.DeleteFunc(rows, func(r BookRow) bool { return r.ItemID != item })
	}
	return append([]BookRow{}, rows...), func(w io.Writer) error { return writeBooks(w, rows, item) }, err
}

// writeBooks prints where every unit of an item is; item 0 prints all rows.
func writeBooks(w io.Writer, rows []BookRow, item int64) error {
	var b strings.Builder
	switch {
	case len(rows) == 0 && item == 0:
		b.WriteString("No item has been published yet.\n\n")
	case len(rows) == 0:
		fmt.Fprintf(&b, "Item %d has no books: no item with that number was published.\n\n", item)
	default:
		fmt.Fprintf(&b, "%8s %9s = %9s + %7s + %7s + %6s + %8s   %10s %9s %8s %10s\n",
			"item", "total", "available", "held", "sold", "backup", "written", "redis left", "in flight", "pending", "difference")
	}
	for _, r := range rows {
		total, available, left := fmt.Sprint(r.Total), fmt.Sprint(r.Available), fmt.Sprint(r.RedisRemaining)
		if r.Unlimited { // an unlimited item is not counted down, so the figures are meaningless
			total, available, left = "unlimited", "–", "–"
		}
		if !r.Loaded {
			left = "–"
		}
		fmt.Fprintf(&b, "%8d %9s = %9s + %7d + %7d + %6d + %8d   %10s %9d %8d %10d\n",
			r.ItemID, total, available, r.Held, r.Sold, r.Backup, r.WrittenOff, left, r.InFlight, r.ReleasePending, r.Difference)
	}
	if len(rows) > 0 {
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
