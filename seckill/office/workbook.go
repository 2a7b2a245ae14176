package office

import (
	"archive/zip"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxPart and maxUnpacked bound what a part of a workbook and all that is read of it
	// unpack to: the API takes 4 MiB, and XML is some three times as long as its texts.
	maxPart     = 8 << 20
	maxUnpacked = 12 << 20
	// maxColumns is Excel's.
	maxColumns = 16_384
	// maxDepth is more than any part that is read nests its elements: each open one takes
	// memory.
	maxDepth = 20
)

var (
	errUnpacked   = fmt.Errorf("it unpacks to more than %d MiB", maxUnpacked>>20)
	errNoWorkbook = errors.New("it is no workbook of Excel")
)

// book reads the first sheet of an XLSX file, part by part and element by element, so
// that it takes no more memory than its cells need, whatever the file claims to have.
type book struct {
	parts map[string]*zip.File
	left  int64 // bytes that may still be unpacked
	cells int   // cells, rows and shared texts so far
	texts []string
}

// rowsOfWorkbook returns the rows of a workbook's first sheet. Numbers are written as Excel
// shows them, with at most 15 digits: it stores 19.9 as 19.899999999999999.
func rowsOfWorkbook(file string) (rows [][]string, err error) {
	archive, err := zip.NewReader(strings.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	w := &book{parts: map[string]*zip.File{}, left: maxUnpacked}
	for _, f := range archive.File {
		w.parts[strings.TrimPrefix(f.Name, "/")] = f
	}
	main, err := w.related("", "/officeDocument", "")
	if err != nil {
		return nil, err
	}
	first := ""
	err = w.each(main, func(_ *part, e xml.StartElement) error {
		if e.Name.Local == "sheet" && first == "" {
			first = attribute(e, "id")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if texts, err := w.related(main, "/sharedStrings", ""); err == nil {
		if err := w.readTexts(texts); err != nil {
			return nil, err
		}
	}
	sheet, err := w.related(main, "/worksheet", first)
	if err != nil {
		return nil, err
	}
	return w.readSheet(sheet)
}

// related returns the part that one names as a relation of a kind, and of an id unless it
// is empty.
func (w *book) related(from, kind, id string) (name string, err error) {
	err = w.each(path.Join(path.Dir(from), "_rels", path.Base("/"+from)+".rels"), func(_ *part, e xml.StartElement) error {
		if e.Name.Local == "Relationship" && strings.HasSuffix(attribute(e, "Type"), kind) && (id == "" || attribute(e, "Id") == id) {
			if name = attribute(e, "Target"); !strings.HasPrefix(name, "/") {
				name = path.Join("/", path.Dir(from), name)
			}
			name = strings.TrimPrefix(name, "/")
		}
		return nil
	})
	if err == nil && name == "" {
		err = errNoWorkbook
	}
	return name, err
}

// part is one that is being read.
type part struct {
	xml   *xml.Decoder
	bytes io.LimitedReader
	depth int
}

// token returns the next one, at the part's end io.EOF.
func (p *part) token() (token xml.Token, err error) {
	token, err = p.xml.Token()
	switch token.(type) {
	case xml.StartElement:
		p.depth++
	case xml.EndElement:
		p.depth--
	}
	switch {
	case p.bytes.N == 0:
		err = errUnpacked
	case p.depth > maxDepth:
		err = errNoWorkbook
	}
	return token, err //nolint:wrapcheck // each wraps it
}

// each calls do for each element of a part that begins.
func (w *book) each(name string, do func(p *part, e xml.StartElement) error) error {
	file := w.parts[name]
	if file == nil {
		return errNoWorkbook
	}
	content, err := file.Open()
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer func() { _ = content.Close() }() // it is in memory
	most := min(w.left, maxPart)
	p := &part{bytes: io.LimitedReader{R: content, N: most + 1}}
	p.xml = xml.NewDecoder(&p.bytes)
	for {
		token, err := p.token()
		if errors.Is(err, io.EOF) {
			w.left -= most + 1 - p.bytes.N
			return nil
		}
		if e, begins := token.(xml.StartElement); begins && err == nil {
			err = do(p, e)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
	}
}

// count counts what memory is needed for.
func (w *book) count() error {
	if w.cells++; w.cells > maxCells {
		return errCells
	}
	return nil
}

func (w *book) readTexts(name string) error {
	return w.each(name, func(p *part, e xml.StartElement) error {
		if e.Name.Local != "si" {
			return nil
		}
		text, err := textOf(p)
		w.texts = append(w.texts, text)
		return errors.Join(err, w.count())
	})
}

func (w *book) readSheet(name string) (rows [][]string, err error) {
	line := 0
	err = w.each(name, func(p *part, e xml.StartElement) error {
		switch e.Name.Local {
		case "row":
			if line++; attribute(e, "r") != "" {
				line, _ = strconv.Atoi(attribute(e, "r"))
			}
			if line > maxCells {
				return errCells
			}
			return w.count()
		case "c":
			if line < 1 || len(rows) > line {
				return errNoWorkbook
			}
			rows = append(rows, make([][]string, line-len(rows))...)
			row := &rows[line-1]
			at := columnOf(attribute(e, "r"), len(*row))
			if at < len(*row) || at >= maxColumns {
				return errNoWorkbook
			}
			for range at + 1 - len(*row) {
				*row = append(*row, "")
				if err := w.count(); err != nil {
					return err
				}
			}
			value, err := w.value(p, attribute(e, "t"))
			(*row)[at] = value
			return err
		}
		return nil
	})
	return rows, err
}

// columnOf is the column of a cell such as C5, counted from 0; a cell without a place
// follows the one before.
func columnOf(place string, next int) int {
	const letters = 26
	column := 0
	for _, r := range place {
		if r < 'A' || r > 'Z' || column > maxColumns {
			break
		}
		column = column*letters + int(r-'A') + 1
	}
	if column == 0 {
		return next
	}
	return column - 1
}

// value reads a cell, whose kind is empty for a number.
func (w *book) value(p *part, kind string) (string, error) {
	text, err := textOf(p)
	if err != nil || text == "" {
		return "", err
	}
	switch kind {
	case "s":
		i, err := strconv.Atoi(text)
		if err != nil || i < 0 || i >= len(w.texts) {
			return "", errNoWorkbook
		}
		return w.texts[i], nil
	case "b":
		return map[string]string{"0": "FALSE", "1": "TRUE"}[text], nil
	case "", "n":
		const shown = 15 // digits
		number, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return "", fmt.Errorf("read a number: %w", err)
		}
		number, _ = strconv.ParseFloat(strconv.FormatFloat(number, 'g', shown, 64), 64)
		return strconv.FormatFloat(number, 'f', -1, 64), nil
	}
	return text, nil
}

// escaped is how a workbook writes what XML cannot hold.
var escaped = regexp.MustCompile(`_x[0-9A-Fa-f]{4}_`)

// textOf reads an element to its end and returns its text, or its value: neither its
// formula nor how it is pronounced.
func textOf(p *part) (string, error) {
	var text strings.Builder
	within := []string{""}
	for len(within) > 0 {
		token, err := p.token()
		if err != nil {
			return "", err
		}
		switch token := token.(type) {
		case xml.StartElement:
			within = append(within, token.Name.Local)
		case xml.EndElement:
			within = within[:len(within)-1]
		case xml.CharData:
			if in := within[len(within)-1]; (in == "t" || in == "v") && !slices.Contains(within, "rPh") {
				text.Write(token)
			}
		}
	}
	return escaped.ReplaceAllStringFunc(text.String(), func(code string) string {
		r, _ := strconv.ParseUint(code[2:6], 16, 16)
		return string(rune(r))
	}), nil
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}
