package spreadsheet

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
)

// measure unpacks a workbook without keeping any of it, and fails if reading it would take
// more memory than a table does: a file of 45 kB can hold millions of elements, or one long
// text that each cell copies.
func measure(file string) error {
	archive, err := zip.NewReader(strings.NewReader(file), int64(len(file)))
	if err != nil {
		return err
	}
	left, elements, attributes := int64(maxUnpacked), 0, 0
	texts := texts{used: map[int]int{}}
	for _, f := range archive.File {
		part, err := f.Open()
		if err != nil {
			return err
		}
		content, err := io.ReadAll(io.LimitReader(part, left+1))
		_ = part.Close() // it was read
		left -= int64(len(content))
		elements += bytes.Count(content, []byte("<"))
		attributes += bytes.Count(content, []byte("="))
		switch {
		case left < 0:
			return errUnpacked
		case err != nil:
			return err
		case max(elements, attributes) > maxElements:
			return errCells
		}
		if err := texts.count(strings.ReplaceAll(f.Name, `\`, "/"), content); err != nil {
			return fmt.Errorf("read %s: %w", f.Name, err)
		}
	}
	if texts.bytes() > maxUnpacked {
		return errUnpacked
	}
	return nil
}

// texts measures the texts that cells share. The library copies one for each cell that has it.
type texts struct {
	shared []int       // their lengths
	used   map[int]int // how many cells have which
}

func (t *texts) bytes() (sum int64) {
	for i, cells := range t.used {
		if i >= 0 && i < len(t.shared) {
			sum += int64(t.shared[i]) * int64(cells)
		}
	}
	return sum
}

// count adds a part of the workbook. The parts' names do not say which is a sheet, so that it
// counts what it can read of each, as the library does; but XML that is damaged is an error,
// because the library would take the damage for the table's end.
func (t *texts) count(name string, content []byte) error {
	table := strings.EqualFold(name, "xl/sharedStrings.xml")
	if table {
		t.shared = nil // the library takes the last one
	}
	d := xml.NewDecoder(bytes.NewReader(content))
	d.CharsetReader = func(string, io.Reader) (io.Reader, error) { return nil, errEncoding }
	var (
		depth, textDepth, length int
		inCell, shares           bool
	)
	for {
		token, err := d.Token()
		if err != nil {
			if damaged := !errors.Is(err, io.EOF) && path.Ext(name) == ".xml"; damaged || errors.Is(err, errEncoding) {
				return err
			}
			return nil
		}
		switch e := token.(type) {
		case xml.StartElement:
			depth++
			switch e.Name.Local {
			case "c":
				if inCell && shares {
					return errNested // the library would take the inner one's value for the outer one's
				}
				inCell, shares = true, false
				for _, a := range e.Attr {
					shares = shares || a.Name.Local == "t" && a.Value == "s"
				}
			case "v":
				if !shares {
					continue
				}
				var index string
				if err := d.DecodeElement(&index, &e); err != nil {
					return err
				}
				depth-- // its end was read
				if i, err := strconv.Atoi(strings.TrimSpace(index)); err == nil {
					t.used[i]++
				}
			case "si", "is":
				if textDepth == 0 {
					textDepth, length = depth, 0
				}
			}
		case xml.CharData:
			if length += len(e); textDepth > 0 && length > maxText {
				return errText
			}
		case xml.EndElement:
			if e.Name.Local == "c" {
				inCell, shares = false, false
			}
			if depth == textDepth {
				if textDepth = 0; table && depth == 2 && e.Name.Local == "si" {
					t.shared = append(t.shared, length)
				}
			}
			depth--
		}
	}
}
