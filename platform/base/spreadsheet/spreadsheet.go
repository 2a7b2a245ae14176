// Package spreadsheet reads the files that people fill in: CSV, as Excel writes it in any
// language, and XLSX. What a file may unpack to is measured first, because some kilobytes can
// hold millions of elements.
package spreadsheet

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/xuri/excelize/v2"
	"golang.org/x/text/encoding/simplifiedchinese"

	"stampede/platform/base/fault"
)

const (
	// MaxCells fits a thousand items of a sale, the most that the API takes, with as many cells
	// beside them as people leave. A row of a workbook that names its last cell alone has 16,384.
	MaxCells = 100_000
	// maxUnpacked is twice the 4 MiB that the API takes: beside its texts, the XML of a
	// thousand rows is below one.
	maxUnpacked = 8 << 20
	// maxElements is twice what a thousand rows of eleven cells take, with their texts. The
	// library needs some 200 bytes for an element that has five, and as many for an
	// attribute; Excel gives a cell's two elements about three.
	maxElements = 200_000
	// maxText is ten thousand Chinese characters and more: the time in which the library
	// resolves a text's escapes grows with the square of its length.
	maxText = 32 << 10
)

var (
	errCells      = errors.New("too many cells")
	errEncoding   = errors.New("neither UTF-8 nor GB18030")
	errUnpacked   = errors.New("it unpacks to too much")
	errText       = errors.New("a cell's text is too long")
	errNested     = errors.New("a cell is in a cell")
	errNoWorkbook = errors.New("it is no workbook")
)

// Says is what is wrong with a file that Read refused, for the person who sent it.
func Says(err error) fault.Text {
	switch {
	case errors.Is(err, errEncoding):
		return fault.T("The file's letters cannot be read. Save it as XLSX, or as CSV in UTF-8.", "文件编码无法识别，请另存为 XLSX 或 UTF-8 编码的 CSV。")
	case errors.Is(err, errCells):
		return fault.T("The file has more than {most} cells. Delete what is beside and below the table, or split it.", "文件超过 {most} 个单元格，请删除表格以外的内容，或拆分为多个文件。", "most", MaxCells)
	case errors.Is(err, errUnpacked):
		return fault.T("The file unpacks to more than {most} MiB. Copy the table into a new workbook, or split it.", "文件解压后超过 {most} MiB，请将表格复制到新工作簿，或拆分为多个文件。", "most", maxUnpacked>>20)
	case errors.Is(err, errText):
		return fault.T("A cell of the file has more than {most} KiB of text. Shorten it.", "文件中有单元格的文字超过 {most} KiB，请缩短。", "most", maxText>>10)
	case errors.Is(err, errNoWorkbook):
		return fault.T("The file cannot be read as a workbook. Save it in Excel as XLSX, or as CSV.", "无法识别该工作簿，请在 Excel 中另存为 XLSX 或 CSV。")
	default:
		return fault.T("The file cannot be read: {reason}", "文件无法读取：{reason}", "reason", errors.Unwrap(err).Error())
	}
}

// reading is held by the one file that this process reads: one of 4 MiB takes some ten times
// as much memory while it is read.
var reading sync.Mutex

// asText is a cell of a CSV file that keeps Excel from taking it for a number. Programs other than
// Excel write it, and none of them doubles its quotation marks.
var asText = regexp.MustCompile(`(?m)(^|[,;])="([^",;\r\n]+)"`)

// Read returns the rows of a CSV or XLSX file, of which only the first sheet counts; empty
// lines are rows too, so that a row's place is its line. Excel in China writes CSV as GBK. Says
// has the words for its error.
func Read(file string) (rows [][]string, err error) {
	reading.Lock()
	defer reading.Unlock()
	if strings.HasPrefix(file, "PK\x03\x04") {
		if rows, err = rowsOfWorkbook(file); err != nil {
			return nil, fmt.Errorf("spreadsheet: %w: %w", errNoWorkbook, err)
		}
		return rows, nil
	}
	if !utf8.ValidString(file) {
		decoded, err := simplifiedchinese.GB18030.NewDecoder().String(file)
		if err == nil && strings.ContainsRune(decoded, utf8.RuneError) { // what it cannot read becomes this
			err = errEncoding
		}
		if err != nil {
			return nil, fmt.Errorf("spreadsheet: read a file as GB18030: %w", err)
		}
		file = decoded
	}
	file = asText.ReplaceAllString(strings.TrimPrefix(file, "\ufeff"), "$1$2")
	r, cells := csv.NewReader(strings.NewReader(file)), 0
	r.FieldsPerRecord = -1
	// Excel separates cells by what the language of the computer has for it. Headings have
	// neither of the two.
	if headings, _, _ := strings.Cut(file, "\n"); strings.Count(headings, ";") > strings.Count(headings, ",") {
		r.Comma = ';'
	}
	for {
		row, err := r.Read()
		if err == io.EOF {
			return rows, nil
		}
		if cells += len(row); cells > MaxCells {
			err = errCells
		}
		if err != nil {
			return nil, fmt.Errorf("spreadsheet: read CSV: %w", err)
		}
		for line, _ := r.FieldPos(0); len(rows) < line-1; { // empty lines have numbers too
			rows = append(rows, nil)
		}
		rows = append(rows, row)
	}
}

// rowsOfWorkbook returns the rows of a workbook's first sheet as they are stored, but
// decimals as Excel shows them.
func rowsOfWorkbook(file string) (rows [][]string, err error) {
	if err := measure(file); err != nil {
		return nil, err
	}
	book, err := excelize.OpenReader(strings.NewReader(file), excelize.Options{RawCellValue: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = book.Close() }() // it is in memory
	lines, err := book.Rows(book.GetSheetName(0))
	if err != nil {
		return nil, err
	}
	defer func() { _ = lines.Close() }() // as above
	cells := 0
	for line := 1; lines.Next(); line++ {
		row, err := lines.Columns()
		if err != nil {
			return nil, err
		}
		if cells += len(row); cells > MaxCells || line > MaxCells {
			return nil, errCells
		}
		if len(row) > 0 {
			for i := range row {
				row[i] = asShown(row[i])
			}
			rows = append(append(rows, make([][]string, line-1-len(rows))...), row)
		}
	}
	return rows, lines.Error()
}

// asShown rounds a decimal to the 15 digits that Excel shows: it stores 19.9 as
// 19.899999999999999. Other cells stay as they are.
func asShown(cell string) string {
	const shown = 15
	if len(cell) <= shown+1 || !decimal.MatchString(cell) {
		return cell
	}
	number, _ := strconv.ParseFloat(cell, 64)
	number, _ = strconv.ParseFloat(strconv.FormatFloat(number, 'g', shown, 64), 64)
	return strconv.FormatFloat(number, 'f', -1, 64)
}

// decimal is a number with decimals as Excel stores it.
var decimal = regexp.MustCompile(`^-?\d+\.\d+(E[+-]?\d+)?$`)
