// Package waybill reads which order was sent with which number from the sheets that carriers'
// clients and Stampede's own exports write. It recognises the columns by their headings, below
// a title if there is one, and repairs what spreadsheets do to numbers where that is safe.
package waybill

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"stampede/platform/base/fault"
	"stampede/platform/base/plaintext"
)

// MaxRows is how many rows of a sheet are read: some ten seconds of work where each is new.
const MaxRows = 2000

// Row is one line of a sheet.
type Row struct {
	Line       int // in the file, from 1
	OrderNo    string
	Carrier    string // as the sheet has it, "" if it does not say
	TrackingNo string
	// Spoiled says that a spreadsheet has rounded the number, so that it cannot be restored.
	Spoiled bool
}

// RowOf is the row of what was typed into its cells.
func RowOf(line int, orderNo, carrier, number string) Row {
	r := Row{Line: line, OrderNo: strings.ToLower(tidy(orderNo)), Carrier: tidy(carrier)}
	r.TrackingNo, r.Spoiled = Number(number)
	return r
}

// columns are the headings by what they are about, the surest first: a carrier's client calls
// a number of its own the order's, and the shop's the customer's.
var columns = [3][]string{
	{"order_no", "商家订单号", "商户订单号", "客户订单号", "原始订单号", "平台订单号", "外部订单号", "客户单号", "订单号", "订单编号", "订单号码", "order number", "order id", "order"},
	{"carrier", "快递公司", "快递公司名称", "物流公司", "物流公司名称", "承运商", "快递名称", "配送公司", "快递", "courier", "shipping carrier"},
	{"tracking_no", "运单号", "运单号码", "运单编号", "快递单号", "快递运单号", "物流单号", "物流运单号", "电子面单号", "面单号", "tracking number", "tracking", "waybill", "waybill no", "waybill number"},
}

// The places in columns.
const (
	ofOrder = iota
	ofCarrier
	ofNumber
)

// titleRows is how far down the headings are looked for.
const titleRows = 10

// folded is a heading without what its writers differ in, and what they add in brackets.
func folded(heading string) string {
	heading, _, _ = strings.Cut(width.Fold.String(plaintext.Clean(heading)), "(")
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// headings finds the columns in a row; -1 is one that is not there.
func headings(row []string) (at [3]int, ok bool) {
	cells := make([]string, len(row))
	for i := range row {
		cells[i] = folded(row[i])
	}
	for of, names := range columns {
		at[of] = -1
		for _, name := range names {
			if at[of] < 0 {
				at[of] = slices.Index(cells, folded(name))
			}
		}
	}
	return at, at[ofOrder] >= 0 && at[ofNumber] >= 0
}

// What is wrong with a whole sheet.
var (
	errColumns = fault.Plain(fault.Invalid, fault.T(
		"The sheet needs a row of headings with the order number (order_no) and the tracking number (tracking_no), and may have the carrier (carrier). Rename these columns and upload it again.",
		"表格须有表头行，包含“订单号”和“运单号”（或“快递单号”）两列，“快递公司”列可选。请修改列名后重新上传。"))
	errEmpty = fault.Plain(fault.Invalid, fault.T("The sheet has no row with an order number below its headings.", "表头下没有带订单号的行。"))
	errMany  = fault.Plain(fault.Invalid, fault.T("The sheet has more than {most} rows. Split it into several and upload each.", "表格超过 {most} 行，请拆分后分别上传。", "most", MaxRows))
)

// Rows reads the rows of a sheet. Its error is a fault.
func Rows(cells [][]string) ([]Row, error) {
	var at [3]int
	begin := -1
	for i := range cells[:min(titleRows, len(cells))] {
		if found, ok := headings(cells[i]); ok {
			at, begin = found, i+1
			break
		}
	}
	if begin < 0 {
		return nil, errColumns
	}
	var rows []Row
	for i := begin; i < len(cells); i++ {
		cell := func(of int) string {
			if j := at[of]; j >= 0 && j < len(cells[i]) {
				return cells[i][j]
			}
			return ""
		}
		r := RowOf(i+1, cell(ofOrder), cell(ofCarrier), cell(ofNumber))
		if r.OrderNo == "" && r.TrackingNo == "" {
			continue
		}
		if rows = append(rows, r); len(rows) > MaxRows {
			return nil, errMany
		}
	}
	if len(rows) == 0 {
		return nil, errEmpty
	}
	return rows, nil
}

// tidy removes what makes a spreadsheet keep a cell as a text, and narrows wide digits.
func tidy(cell string) string {
	return strings.TrimSpace(strings.Trim(strings.TrimLeft(width.Fold.String(plaintext.Clean(cell)), "'‘’`="), `"`))
}

var (
	// scientific is a number as a spreadsheet shows a long one.
	scientific = regexp.MustCompile(`^(\d)(?:\.(\d+))?[eE]\+?(\d{1,2})$`)
	// whole is a number with decimals that are none.
	whole = regexp.MustCompile(`^(\d+)\.0+$`)
)

// excelDigits is how many digits of a number spreadsheets keep; they put zeros for the others.
const excelDigits = 15

// Number is a tracking number as carriers write it: without spaces, in capitals. A number that
// a spreadsheet took for one is restored if it still has all its digits; else it is spoiled.
func Number(typed string) (number string, spoiled bool) {
	number = strings.ToUpper(strings.Join(strings.Fields(tidy(typed)), ""))
	if m := whole.FindStringSubmatch(number); m != nil {
		number = m[1]
	}
	if m := scientific.FindStringSubmatch(number); m != nil {
		digits, exponent := m[1]+m[2], 0
		if exponent, _ = strconv.Atoi(m[3]); len(digits) != exponent+1 || len(digits) > excelDigits {
			return number, true
		}
		return digits, false
	}
	lost := len(number) - excelDigits
	if lost > 1 && strings.Trim(number, "0123456789") == "" && strings.HasSuffix(number, strings.Repeat("0", lost)) {
		return number, true
	}
	return number, false
}
