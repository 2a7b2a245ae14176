package office

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"
	"golang.org/x/text/encoding/simplifiedchinese"

	"stampede/platform/edge/httpx"
	kit "stampede/platform/edge/office"
)

const goodSheet = "场次,开抢时间,结束时间,商品编码,商品名称,规格,原价,秒杀价,库存,每人限购,商品描述\r\n" +
	"20 点场,2026/11/11 20:00,2026-11-11 22:00,lamp,台灯,白色,199,19.90,50,2,暖光\r\n" +
	",,,desk,书桌,,999.5,99,不限,,\r\n\r\n" +
	"10 点场,2026-11-12 10:00:30,2026-11-12 11:00,lamp,台灯,,199,19.90,0,,\r\n"

// TestSheetsPlanSales reads the same sale from each kind of file.
func TestSheetsPlanSales(t *testing.T) {
	t.Parallel()
	c, zone := &kit.Call{Lang: httpx.Chinese}, time.FixedZone("shop", 8*3600)
	gbk, err := simplifiedchinese.GBK.NewEncoder().String(goodSheet)
	if err != nil {
		t.Fatal(err)
	}
	for kind, file := range map[string]string{"UTF-8": goodSheet, "UTF-8 with a mark": "\ufeff" + goodSheet, "GBK": gbk, "XLSX": workbook(t)} {
		rows, err := rowsOf(file)
		if err != nil {
			t.Fatal(kind, err)
		}
		s := planOf(c, zone, rows)
		if len(s.flaws) > 0 || len(s.sessions) != 2 {
			t.Fatalf("%s: %v %v", kind, s.flaws, s.sessions)
		}
		body := s.body("双十一")
		first, second := s.sessions[0].Items, s.sessions[1]
		lamp, desk := first[0], first[1]
		if fmt.Sprint(body["starts_at"], body["ends_at"], second.OpensAt) != "2026-11-11 20:00:00 +0800 shop 2026-11-12 11:00:00 +0800 shop 2026-11-12 10:00:30 +0800 shop" {
			t.Errorf("%s: times %v", kind, body)
		}
		if fmt.Sprint(lamp["sale_price"]) != "map[amount:1990 currency:CNY]" || lamp["limit_per_user"] != int64(2) || lamp["detail"] == nil || desk["unlimited"] != true || desk["stock"] != nil {
			t.Errorf("%s: items %v", kind, first)
		}
		if kind == "XLSX" {
			continue
		}
		for location, want := range map[string]string{
			"body.sessions[0].items[1].sale_price.amount": "第 3 行，秒杀价：", "body.sessions[1].name": "第 5 行，场次：", "body.sessions[1].items[0].sku": "第 5 行，商品编码：",
			"body.sessions[0].items[0]": "第 2 行：", "body.name": "", "body.sessions[9].name": "",
		} {
			if got := s.where(c, location); got != want {
				t.Errorf("%s: %s is at %q, want %q", kind, location, got, want)
			}
		}
	}
}

// workbook is the same sale as people type it into Excel, where times are numbers.
func workbook(t *testing.T) string {
	t.Helper()
	book := excelize.NewFile()
	defer func() { _ = book.Close() }()
	at := func(h, m, s int) time.Time { return time.Date(2026, 11, 11, h, m, s, 0, time.UTC) }
	for i, row := range [][]any{
		{"Session", "Opens at", "Closes at", "SKU", "Title", "Variant", "Price elsewhere", "Price in the sale", "Units", "Limit per shopper", "Description"},
		{"20 点场", at(20, 0, 0), at(22, 0, 0), "lamp", "台灯", "白色", 199, 19.9, 50, 2, "暖光"},
		{nil, nil, nil, "desk", "书桌", nil, 999.5, 99, "unlimited"},
		{"10 点场", at(34, 0, 30), at(35, 0, 0), "lamp", "台灯", nil, 199, 19.9, 0},
	} {
		cell, err := excelize.CoordinatesToCellName(1, i+1)
		if err == nil {
			err = book.SetSheetRow("Sheet1", cell, &row)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := book.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestSheetsNameEveryWrongLine: an operator corrects all of them at once.
func TestSheetsNameEveryWrongLine(t *testing.T) {
	t.Parallel()
	c := &kit.Call{Lang: httpx.Chinese}
	rows, err := rowsOf(strings.NewReplacer("19.90,50", "十九,50", ",desk,", ",,", "2026-11-12 11:00", "明天").Replace(goodSheet))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, f := range planOf(c, time.UTC, rows).flaws {
		said = append(said, f.Message)
	}
	want := []string{"第 2 行，秒杀价：请填写金额，例如 19.90。", "第 3 行，商品编码：必填。", "第 5 行，结束时间：请填写时间，例如 2026-11-11 20:00。"}
	if !slices.Equal(said, want) {
		t.Errorf("said %q", said)
	}
	for file, want := range map[string]string{
		"": "文件为空。", "场次,颜色\n": `第 1 行：不支持的列 "颜色"`, strings.SplitAfter(goodSheet, "\n")[0]: "表头下没有商品。", "\"x": "文件无法读取", "PK\x03\x04": "文件无法读取", "{": "JSON 格式有误",
		goodSheet[:len(goodSheet)-2] + "\xe5\xff": "文件编码", "{}\n{}": "JSON 格式有误", "场次,Session\n": `列重复 "Session"`, "a" + strings.Repeat(",", maxCells): "个单元格", wideWorkbook(t): "个单元格",
	} {
		_, _, err := planIn(c, time.UTC, url.Values{"name": {"n"}, "file": {file}})
		if err == nil || !strings.Contains(err.Error()+flawsOf(err), want) {
			t.Errorf("%.40q: %v %s, want %s", file, err, flawsOf(err), want)
		}
	}
}

// wideWorkbook has few cells, each at the end of its row: as text, rows have all before it.
func wideWorkbook(t *testing.T) string {
	t.Helper()
	book := excelize.NewFile()
	defer func() { _ = book.Close() }()
	for line := range 10 {
		if err := book.SetCellValue("Sheet1", fmt.Sprint("XFD", line+1), 1); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := book.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func flawsOf(err error) (all string) {
	if p, ok := err.(*kit.Problem); ok { //nolint:errorlint // planIn wraps nothing
		for _, f := range p.Errors {
			all += f.Message
		}
	}
	return all
}
