package company

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"

	"stampede/payment/provider"
	"stampede/platform/base/ids"
)

// maxRowBytes bounds a bill's row, whose longest cells are the product and the shop's
// own data.
const maxRowBytes = 64 << 10

// Bill is the form of the Chinese companies' bills: a header, and a row per movement.
type Bill struct {
	Comment string                                 // begins rows to pass over, "" for none
	Totals  string                                 // begins the rows below the movements, without which the bill is cut off; "" for none
	Cells   func(row string, columns int) []string // splits a row; columns is 0 for the header
	// Line reads a row; cell returns the trimmed cell of the first column whose name
	// begins so, "" without one. moved is false for a row that is no movement.
	Line func(cell func(column string) string) (l provider.Line, moved bool, err error)
}

// errEnough ends the reading of a bill of which no more is wanted.
var errEnough = errors.New("the rest of the bill is not wanted")

// Read passes a bill's movements on as they are read. It fails also if pass returned false,
// for no more of them.
func (b Bill) Read(r io.Reader, pass func(provider.Line) bool) error {
	rows := bufio.NewScanner(r)
	rows.Buffer(nil, maxRowBytes)
	var header []string
	at := map[string]int{}
	for rows.Scan() {
		text := strings.TrimRight(strings.TrimPrefix(rows.Text(), "\ufeff"), "\r")
		if text == "" || b.Comment != "" && strings.HasPrefix(text, b.Comment) {
			continue
		}
		if header == nil {
			header = b.Cells(text, 0)
			continue
		}
		if b.Totals != "" && strings.HasPrefix(text, b.Totals) {
			return nil
		}
		cells := b.Cells(text, len(header))
		l, moved, err := b.Line(func(column string) string {
			i, known := at[column]
			if !known {
				i = slices.IndexFunc(header, func(name string) bool { return strings.HasPrefix(strings.TrimSpace(name), column) })
				at[column] = i
			}
			if i < 0 || i >= len(cells) {
				return ""
			}
			return strings.TrimSpace(cells[i])
		})
		if err != nil {
			return err
		}
		if moved && !pass(l) {
			return errEnough
		}
	}
	switch {
	case rows.Err() != nil:
		return rows.Err()
	case header == nil:
		return errors.New("the bill has no header")
	case b.Totals != "":
		return errors.New("the bill has no totals: it is cut off")
	}
	return nil
}

// OurNumber is a number of ours in a bill, or zero for one that was made elsewhere.
func OurNumber(text string) ids.ID {
	no, err := ids.Parse(text)
	if err != nil {
		return ids.ID{}
	}
	return no
}
