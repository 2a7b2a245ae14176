package search

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/xuri/excelize/v2"

	"stampede/platform/base/spreadsheet"
)

// newSheet begins a file of a format, csv or xlsx, with its heading; rest leaves that out
// of a CSV file, which is to be put behind another one.
func newSheet(format string, as layout, rest bool, w io.Writer) (s sheet, err error) {
	switch {
	case format == "xlsx":
		s, err = newWorkbook(w, as)
	case rest:
		return &csvFile{w, csv.NewWriter(w), as.texts}, nil
	default:
		_, err = io.WriteString(w, spreadsheet.Mark)
		s = &csvFile{w, csv.NewWriter(w), as.texts}
	}
	if err != nil {
		return nil, fmt.Errorf("order: export: %w", err)
	}
	return s, s.write(as.heading)
}

// csvFile is sent as it is written.
type csvFile struct {
	out   io.Writer
	csv   *csv.Writer
	texts bool
}

func (c *csvFile) write(cells []string) error {
	safe := make([]string, len(cells))
	for i, cell := range cells {
		if c.texts {
			safe[i] = spreadsheet.Text(cell)
		} else {
			safe[i] = spreadsheet.Defused(cell)
		}
	}
	if err := c.csv.Write(safe); err != nil {
		return fmt.Errorf("order: export: %w", err)
	}
	return nil
}

func (c *csvFile) flush() error {
	c.csv.Flush()
	if err := c.csv.Error(); err != nil {
		return fmt.Errorf("order: export: %w", err)
	}
	flush(c.out)
	return nil
}

func (c *csvFile) close() error { return c.flush() }
func (c *csvFile) most() int    { return math.MaxInt }

// workbook is sent as it is written too. Excelize's own stream is a temporary file of some
// 2 KiB for an order, which is sent when its last row is there: a million orders would fill
// the disk that the stores need, and a proxy would give up the wait for the first byte. So
// excelize makes the parts around the sheet, and the rows are written here.
type workbook struct {
	out   io.Writer
	zip   *zip.Writer
	sheet io.Writer
	as    layout
	row   []byte // reused
	rows  int
}

const (
	// sheetPart is the sheet's name in the archive of a new workbook of excelize.
	sheetPart = "xl/worksheets/sheet1.xml"
	sheetHead = xml.Header + `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>`
	sheetTail = `</sheetData></worksheet>`
)

// around takes an empty workbook's parts without the sheet, and leaves the archive open.
type around struct{ *zip.Writer }

func (a around) Create(name string) (io.Writer, error) {
	if name == sheetPart {
		return io.Discard, nil
	}
	return a.Writer.Create(name) // newWorkbook wraps it
}

func (around) Close() error { return nil }

func newWorkbook(w io.Writer, as layout) (*workbook, error) {
	b := &workbook{out: w, as: as, zip: zip.NewWriter(w)}
	// A third of the time of the default level, for a file a tenth longer.
	b.zip.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return flate.NewWriter(out, flate.BestSpeed) })
	file := excelize.NewFile()
	file.SetZipWriter(func(io.Writer) excelize.ZipWriter { return around{b.zip} })
	_, err := file.NewStyle(&excelize.Style{NumFmt: 2}) // the first of one's own is 1
	if err == nil {
		_, err = file.WriteTo(io.Discard) // the archive has it
	}
	if err = errors.Join(err, file.Close()); err == nil {
		b.sheet, err = b.zip.Create(sheetPart)
	}
	if err == nil {
		_, err = io.WriteString(b.sheet, sheetHead)
	}
	if err != nil {
		return nil, fmt.Errorf("begin a workbook: %w", err)
	}
	return b, nil
}

// encoded begins what spreadsheets read as one character, as in _x0041_; literally is how
// they read it as it is.
const encoded, literally = "_x", "_x005F_x"

var aNumber = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

func (b *workbook) write(cells []string) error {
	b.rows++
	number := strconv.Itoa(b.rows)
	row := bytes.NewBuffer(append(append(append(b.row[:0], `<row r="`...), number...), `">`...))
	for i, cell := range cells {
		if cell == "" {
			continue
		}
		// The columns are 26 at most, of one letter each.
		fmt.Fprintf(row, `<c r="%c%s"`, 'A'+i, number)
		if b.as.numeric[b.as.heading[i]] && aNumber.MatchString(cell) {
			if strings.Contains(cell, ".") {
				row.WriteString(` s="1"`) // shown with its decimals
			}
			fmt.Fprintf(row, `><v>%s</v></c>`, cell)
			continue
		}
		row.WriteString(` t="inlineStr"><is><t xml:space="preserve">`)
		_ = xml.EscapeText(row, []byte(strings.ReplaceAll(cell, encoded, literally))) // a buffer takes everything
		row.WriteString(`</t></is></c>`)
	}
	row.WriteString(`</row>`)
	b.row = row.Bytes()
	if _, err := b.sheet.Write(b.row); err != nil {
		return fmt.Errorf("order: export: write a row: %w", err)
	}
	return nil
}

func (b *workbook) flush() error {
	if err := b.zip.Flush(); err != nil {
		return fmt.Errorf("order: export: send a workbook: %w", err)
	}
	flush(b.out)
	return nil
}

func (b *workbook) close() error {
	_, err := io.WriteString(b.sheet, sheetTail)
	if err = errors.Join(err, b.zip.Close()); err != nil {
		return fmt.Errorf("order: export: end a workbook: %w", err)
	}
	return nil
}

// most is what one sheet holds below its heading.
func (b *workbook) most() int { return excelize.TotalRows - 1 }

// flush sends what a response has buffered.
func flush(w io.Writer) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}
