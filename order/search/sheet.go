package search

import (
	"archive/zip"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/xuri/excelize/v2"
)

// newSheet begins a file of a format, csv or xlsx.
func newSheet(format string, w io.Writer) (sheet, error) {
	if format == "xlsx" {
		return newWorkbook(w)
	}
	return &csvFile{out: w, csv: csv.NewWriter(w)}, nil
}

// csvFile is sent as it is written.
type csvFile struct {
	out io.Writer
	csv *csv.Writer
	// begun is set once a row was written.
	begun bool
}

func (c *csvFile) write(cells []string) error {
	if !c.begun && cells[0] == heading[0] {
		// Without the byte order mark, Excel takes UTF-8 for the machine's own code page.
		if _, err := io.WriteString(c.out, "\ufeff"); err != nil {
			return fmt.Errorf("order: export: %w", err)
		}
	}
	c.begun = true
	safe := make([]string, len(cells))
	for i, cell := range cells {
		safe[i] = defused(cell)
	}
	if err := c.csv.Write(safe); err != nil {
		return fmt.Errorf("order: export: %w", err)
	}
	return nil
}

// defused returns a text that no spreadsheet takes for a formula: a title is what a
// person typed. A negative number stays one.
func defused(cell string) string {
	if cell == "" || !strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return cell
	}
	if _, err := strconv.ParseInt(cell, 10, 64); err == nil && cell[0] == '-' {
		return cell
	}
	return "'" + cell
}

func (c *csvFile) flush() error {
	c.csv.Flush()
	if err := c.csv.Error(); err != nil {
		return fmt.Errorf("order: export: %w", err)
	}
	if f, ok := c.out.(http.Flusher); ok {
		f.Flush()
	}
	return nil
}

func (c *csvFile) close() error { return c.flush() }
func (c *csvFile) discard()     {}
func (c *csvFile) most() int    { return 0 }

// workbook is written to a temporary file beyond 16 MiB, of some 2 KiB for an order, and
// sent when it is complete.
type workbook struct {
	file *excelize.File
	rows *excelize.StreamWriter
	next int // the row to write, from 1
}

func newWorkbook(w io.Writer) (*workbook, error) {
	file := excelize.NewFile()
	// Excelize's own buffer would hold the whole archive. It also corrects archives with
	// files beyond 4 GiB there, which a sheet's most rows do not reach.
	file.SetZipWriter(func(io.Writer) excelize.ZipWriter { return zip.NewWriter(w) })
	rows, err := file.NewStreamWriter(file.GetSheetName(0))
	if err != nil {
		return nil, fmt.Errorf("order: export: begin a workbook: %w", err)
	}
	return &workbook{file: file, rows: rows, next: 1}, nil
}

// numeric are the columns that a spreadsheet adds up; all others are texts, which no
// spreadsheet evaluates.
var numeric = map[string]bool{"quantity": true, "unit_price": true, "freight": true, "discount": true, "total": true}

func (b *workbook) write(cells []string) error {
	values := make([]any, len(cells))
	for i, cell := range cells {
		values[i] = cell
		if n, err := strconv.ParseInt(cell, 10, 64); err == nil && numeric[heading[i]] {
			values[i] = n
		}
	}
	if err := b.rows.SetRow("A"+strconv.Itoa(b.next), values); err != nil {
		return fmt.Errorf("order: export: write a row: %w", err)
	}
	b.next++
	return nil
}

func (b *workbook) flush() error { return nil }

func (b *workbook) close() error {
	if err := b.rows.Flush(); err != nil {
		return fmt.Errorf("order: export: end a workbook: %w", err)
	}
	if _, err := b.file.WriteTo(io.Discard); err != nil { // the zip writer sends it
		return fmt.Errorf("order: export: send a workbook: %w", err)
	}
	return nil
}

func (b *workbook) discard() { _ = b.file.Close() } // its temporary files

// most is what one sheet holds below its heading.
func (b *workbook) most() int { return excelize.TotalRows - 1 }
