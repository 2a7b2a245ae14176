package saleoffice

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/xuri/excelize/v2"
	"golang.org/x/text/encoding/simplifiedchinese"

	kit "stampede/platform/edge/office"
)

// column is one of a sheet's, by its heading in either language.
type column struct {
	member  string // of a session or an item in the API
	heading kit.Text
	example kit.Text
}

// sheetColumns are the columns that a sheet may have, in any order. A session's are left
// empty in the rows of its other items.
var sheetColumns = []column{
	{"session", kit.Text{"Session", "场次"}, kit.Text{"20:00", "20 点场"}},
	{"opens_at", kit.Text{"Opens at", "开抢时间"}, kit.Text{"2026-11-11 20:00", "2026-11-11 20:00"}},
	{"closes_at", kit.Text{"Closes at", "结束时间"}, kit.Text{"2026-11-11 22:00", "2026-11-11 22:00"}},
	{"sku", kit.Text{"SKU", "商品编码"}, kit.Text{"lamp", "lamp"}},
	{"title", kit.Text{"Title", "商品名称"}, kit.Text{"Lamp", "台灯"}},
	{"spec", kit.Text{"Variant", "规格"}, kit.Text{"white", "白色"}},
	{"image_url", kit.Text{"Image URL", "图片地址"}, kit.Text{"", ""}},
	{"list_price", kit.Text{"List price", "原价"}, kit.Text{"199", "199"}},
	{"sale_price", kit.Text{"Sale price", "秒杀价"}, kit.Text{"19.90", "19.90"}},
	{"stock", kit.Text{"Stock", "库存"}, kit.Text{"50", "50"}},
	{"backup", kit.Text{"Backup", "备用库存"}, kit.Text{"", ""}},
	{"limit_per_user", kit.Text{"Limit per shopper", "每人限购"}, kit.Text{"1", "1"}},
	{"description", kit.Text{"Description", "商品描述"}, kit.Text{"", ""}},
}

// formerHeadings are those of templates that shops have kept.
var formerHeadings = map[string]string{"picture": "image_url", "price elsewhere": "list_price", "price in the sale": "sale_price", "units": "stock"}

// template is a sheet with the headings and one item, to begin from. Its mark tells
// Excel that it is UTF-8.
func template(c *kit.Call) (name, body string) {
	var out strings.Builder
	out.WriteString("\ufeff")
	w := csv.NewWriter(&out)
	for _, of := range []func(column) kit.Text{func(k column) kit.Text { return k.heading }, func(k column) kit.Text { return k.example }} {
		row := make([]string, len(sheetColumns))
		for i, k := range sheetColumns {
			row[i] = c.In(of(k))
		}
		_ = w.Write(row) // a builder takes everything
	}
	w.Flush()
	return c.T("sale.csv", "活动模板.csv"), out.String()
}

const (
	// maxCells fits a thousand items, the most that the API takes, with as many cells beside
	// them as people leave. A row of a workbook that names its last cell alone has 16,384.
	maxCells = 100_000
	// maxUnpacked is twice the 4 MiB that the API takes: beside its texts, the XML of a
	// thousand items is below one.
	maxUnpacked = 8 << 20
	// maxElements is twice what a thousand items of eleven cells take, with their texts. The
	// library needs some 200 bytes for an element that has five, and as many for an
	// attribute; Excel gives a cell's two elements about three.
	maxElements = 200_000
)

var (
	errCells      = errors.New("too many cells")
	errEncoding   = errors.New("neither UTF-8 nor GB18030")
	errUnpacked   = errors.New("it unpacks to too much")
	errNoWorkbook = errors.New("it is no workbook")
)

// rowsOf reads the rows of a CSV or XLSX file, of which only the first sheet counts.
// Excel in China writes CSV as GBK.
func rowsOf(file string) (rows [][]string, err error) {
	if strings.HasPrefix(file, "PK\x03\x04") {
		if rows, err = rowsOfWorkbook(file); err != nil {
			return nil, fmt.Errorf("office: %w: %w", errNoWorkbook, err)
		}
		return rows, nil
	}
	if !utf8.ValidString(file) {
		decoded, err := simplifiedchinese.GB18030.NewDecoder().String(file)
		if err == nil && strings.ContainsRune(decoded, utf8.RuneError) { // what it cannot read becomes this
			err = errEncoding
		}
		if err != nil {
			return nil, fmt.Errorf("office: read a file as GB18030: %w", err)
		}
		file = decoded
	}
	file = strings.TrimPrefix(file, "\ufeff")
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
		if cells += len(row); cells > maxCells {
			err = errCells
		}
		if err != nil {
			return nil, fmt.Errorf("office: read CSV: %w", err)
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
		if cells += len(row); cells > maxCells || line > maxCells {
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

// measure unpacks a workbook without keeping any of it, and fails if reading it would take
// more memory than a plan does: a file of 45 kB can hold millions of elements.
func measure(file string) error {
	archive, err := zip.NewReader(strings.NewReader(file), int64(len(file)))
	if err != nil {
		return err
	}
	left, elements, attributes := int64(maxUnpacked), 0, 0
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
	}
	return nil
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

// session is a session as the API takes it.
type session struct {
	Name     string           `json:"name"`
	OpensAt  time.Time        `json:"opens_at"`
	ClosesAt time.Time        `json:"closes_at"`
	Items    []map[string]any `json:"items"`
	lines    []int            // of its items, in the file
}

// sheet is a sale as a sheet plans it.
type sheet struct {
	zone     *time.Location
	sessions []*session
	flaws    []kit.Flaw
}

// maxFlaws is how many flaws of a file are told at once.
const maxFlaws = 20

// planOf reads the rows of a sheet: the headings, then an item a row.
func planOf(c *kit.Call, zone *time.Location, rows [][]string) *sheet {
	s := &sheet{zone: zone}
	if len(rows) == 0 {
		s.flaw(c.T("The file is empty.", "文件为空。"))
		return s
	}
	at := map[string]int{}
	for i, heading := range rows[0] {
		heading = strings.TrimSpace(heading)
		for _, k := range sheetColumns {
			if strings.EqualFold(heading, k.heading[0]) || heading == k.heading[1] || strings.EqualFold(heading, k.member) || formerHeadings[strings.ToLower(heading)] == k.member {
				if _, twice := at[k.member]; twice {
					s.flaw(c.T("Line 1: duplicate column ", "第 1 行：列重复 ") + strconv.Quote(heading))
				}
				at[k.member] = i
				heading = ""
			}
		}
		if heading != "" {
			s.flaw(c.T("Line 1: unknown column ", "第 1 行：不支持的列 ") + fmt.Sprintf("%.40q", heading))
		}
	}
	for _, member := range []string{"session", "opens_at", "closes_at", "sku", "title", "list_price", "sale_price", "stock"} {
		if _, ok := at[member]; !ok {
			s.flaw(c.T("Line 1: missing column ", "第 1 行：缺少列 ") + headingOf(c, member))
		}
	}
	if len(s.flaws) > 0 {
		return s
	}
	above := map[string]string{}
	for i, row := range rows[1:] {
		cells := map[string]string{}
		for member, j := range at {
			if j < len(row) && strings.TrimSpace(row[j]) != "" {
				cells[member] = strings.TrimSpace(row[j])
			}
		}
		if len(cells) > 0 {
			s.read(c, i+2, cells, above)
		}
	}
	if len(s.sessions) == 0 && len(s.flaws) == 0 {
		s.flaw(c.T("The file has no item below its headings.", "表头下没有商品。"))
	}
	return s
}

func (s *sheet) flaw(message string) {
	if len(s.flaws) < maxFlaws {
		s.flaws = append(s.flaws, kit.Flaw{Location: "file", Message: message})
	}
}

// read adds the item of a line.
func (s *sheet) read(c *kit.Call, line int, cells, above map[string]string) {
	for _, of := range []string{"session", "opens_at", "closes_at"} {
		above[of] = cmp.Or(cells[of], above[of])
	}
	bad := func(member, english, chinese string) {
		s.flaw(whereOf(c, line, member) + c.T(english, chinese))
	}
	if above["session"] == "" {
		bad("session", "The first item of a session needs the session's name.", "场次首行须填写场次名称。")
	}
	var times [2]time.Time
	for i, of := range []string{"opens_at", "closes_at"} {
		ok := false
		if times[i], ok = momentOf(s.zone, above[of]); !ok {
			bad(of, "Enter a time such as 2026-11-11 20:00.", "请填写时间，例如 2026-11-11 20:00。")
		}
	}
	item := map[string]any{}
	for _, of := range []string{"sku", "title", "spec", "image_url"} {
		if cells[of] != "" {
			item[of] = cells[of]
		} else if of == "sku" || of == "title" {
			bad(of, "Required.", "必填。")
		}
	}
	for _, of := range []string{"list_price", "sale_price"} {
		minor, ok := kit.MinorUnits(decimalComma.ReplaceAllString(cells[of], "$1.$2"), yuan)
		if !ok {
			bad(of, "Enter an amount such as 19.90.", "请填写金额，例如 19.90。")
		}
		item[of] = map[string]any{"amount": minor, "currency": yuan}
	}
	if endless := cells["stock"] == "不限" || strings.EqualFold(cells["stock"], "unlimited"); endless {
		item["unlimited"] = true
		delete(cells, "stock")
	} else if cells["stock"] == "" {
		bad("stock", "Required; write unlimited if the stock is not counted.", "必填；不限量请填“不限”。")
	}
	for _, of := range []string{"stock", "backup", "limit_per_user"} {
		if cells[of] == "" {
			continue
		}
		n, err := strconv.ParseInt(cells[of], 10, 32)
		if err != nil || n < 0 {
			bad(of, "Enter a whole number, 0 or more.", "请填写不小于 0 的整数。")
		}
		item[of] = n
	}
	if cells["description"] != "" {
		item["detail"] = map[string]any{"description": cells["description"], "images": []string{}}
	}
	in := s.session(above["session"], times[0], times[1])
	in.Items, in.lines = append(in.Items, item), append(in.lines, line)
}

// session returns the session of that name and those times.
func (s *sheet) session(name string, opens, closes time.Time) *session {
	for _, known := range s.sessions {
		if known.Name == name && known.OpensAt.Equal(opens) && known.ClosesAt.Equal(closes) {
			return known
		}
	}
	made := &session{Name: name, OpensAt: opens, ClosesAt: closes}
	s.sessions = append(s.sessions, made)
	return made
}

// whereOf names a cell in words.
func whereOf(c *kit.Call, line int, member string) string {
	if heading := headingOf(c, member); heading != "" {
		return fmt.Sprintf(c.T("Line %d, %s: ", "第 %d 行，%s："), line, heading)
	}
	return fmt.Sprintf(c.T("Line %d: ", "第 %d 行："), line)
}

// decimalComma is a price where a comma separates the decimals; thousands have three digits.
var decimalComma = regexp.MustCompile(`^(\d+),(\d{1,2})$`)

func headingOf(c *kit.Call, member string) string {
	for _, k := range sheetColumns {
		if k.member == member {
			return c.In(k.heading)
		}
	}
	return ""
}

// momentOf reads a time as people write it, and as Excel counts it: in days.
func momentOf(zone *time.Location, written string) (time.Time, bool) {
	const longAgo, farAway = 36526, 109575 // the days of 2000 and 2200
	if days, err := strconv.ParseFloat(written, 64); err == nil && days > longAgo && days < farAway {
		at, err := excelize.ExcelDateToTime(days, false)
		written = at.Round(time.Second).Format("2006-01-02 15:04:05")
		if err != nil {
			return time.Time{}, false
		}
	}
	for _, layout := range []string{"2006-1-2 15:04", "2006-1-2 15:04:05", "2006-1-2T15:04", "2006-1-2T15:04:05"} {
		if at, ok := kit.MomentIn(zone, layout, strings.ReplaceAll(written, "/", "-")); ok {
			return at, true
		}
	}
	return time.Time{}, false
}
