package saleoffice

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/xuri/excelize/v2"

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
