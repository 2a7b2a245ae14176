package saleoffice

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/xuri/excelize/v2"
	"golang.org/x/text/encoding/simplifiedchinese"

	"stampede/platform/base/spreadsheet"
	"stampede/platform/edge/httpx"
	kit "stampede/platform/edge/office"
	"stampede/platform/workshop/require"
)

const goodSheet = "场次,开抢时间,结束时间,商品编码,商品名称,规格,原价,秒杀价,库存,每人限购,商品描述\r\n" +
	"20 点场,2026/11/11 20:00,2026-11-11 22:00,lamp,台灯,白色,199,19.90,50,2,暖光\r\n" +
	",,,desk,书桌,,999.5,99,不限,,\r\n\r\n" +
	"10 点场,2026-11-12 10:00:30,2026-11-12 11:00,lamp,台灯,,199,19.90,0,,\r\n"

// TestSheetsPlanSales reads the same sale from each kind of file.
func TestSheetsPlanSales(t *testing.T) {
	t.Parallel()
	c, zone := &kit.Call{Words: kit.Words{Lang: httpx.Chinese}}, time.FixedZone("shop", 8*3600)
	gbk, err := simplifiedchinese.GBK.NewEncoder().String(goodSheet)
	require.NoError(t, err)
	for kind, file := range map[string]string{"UTF-8": goodSheet, "UTF-8 with a mark": "\ufeff" + goodSheet, "GBK": gbk, "XLSX": workbook(t), "XLSX of Excel": zipped(t, ofExcel), "CSV of a German Excel": germanSheet} {
		rows, err := spreadsheet.Read(file)
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
		if spec := desk["spec"]; strings.HasPrefix(kind, "XLSX of") && spec != "0.7" {
			t.Errorf("%s: the variant is %v, and Excel shows 0.7", kind, spec)
		}
		if strings.HasPrefix(kind, "XLSX") {
			continue
		}
		for location, want := range map[string]string{
			"body.sessions[0].items[1].sale_price.amount": "第 3 行，秒杀价：", "body.sessions[1].name": "第 5 行，场次：", "body.sessions[1].items[0].sku": "第 5 行，商品编码：",
			"body.sessions[0].items[0]": "第 2 行：", "body.name": "", "body.sessions[9].name": "",
		} {
			require.Equal(t, kind+": the place of "+location, s.where(c, location), want)
		}
	}
}

// germanSheet is the same sale in a language that separates decimals by commas.
var germanSheet = strings.NewReplacer(",", ";", "19.90", "19,90", "999.5", "999,5").Replace(goodSheet)

// ofExcel are the parts of the same sale as Excel itself writes them: numbers with 17
// digits, texts shared, with runs and with how they are pronounced, times as numbers with a
// style, a price by a formula. One variant is a number, and there is an error beside.
var ofExcel = map[string]string{
	"_rels/.rels": `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId3" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/extended-properties" Target="docProps/app.xml"/><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>`,
	"xl/_rels/workbook.xml.rels": `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId2" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="/xl/worksheets/sheet2.xml"/><Relationship Id="rId4" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings" Target="sharedStrings.xml"/></Relationships>`,
	"xl/workbook.xml":            `<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><workbookPr defaultThemeVersion="166925"/><bookViews><workbookView xWindow="0" yWindow="0"/></bookViews><sheets><sheet name="活动" sheetId="2" r:id="rId1"/><sheet name="Sheet1" sheetId="1" r:id="rId2"/></sheets></workbook>`,
	"xl/sharedStrings.xml": `<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" count="20" uniqueCount="18"><si><t>场次</t><phoneticPr fontId="1" type="noConversion"/></si><si><t>开抢时间</t></si><si><t>结束时间</t></si><si><t>商品编码</t></si><si><t>商品名称</t></si><si><t>规格</t></si><si><t>原价</t></si><si><r><t>秒杀</t></r><r><rPr><b/><sz val="11"/></rPr><t>价</t></r><rPh sb="0" eb="2"><t>ミャオシャー</t></rPh></si><si><t>库存</t></si><si><t>每人限购</t></si><si><t>商品描述</t></si>` +
		`<si><t>20 点场</t></si><si><t>lamp</t></si><si><t>台灯</t></si><si><t xml:space="preserve">白色 </t></si><si><t>暖光_x000D_</t></si><si><t>不限</t></si><si><t>10 点场</t></si></sst>`,
	"xl/worksheets/sheet1.xml": `<worksheet/>`,
	"xl/worksheets/sheet2.xml": `<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><dimension ref="A1:K5"/><sheetViews><sheetView tabSelected="1" workbookViewId="0"/></sheetViews><sheetFormatPr defaultRowHeight="14.25"/><cols><col min="2" max="3" width="18.25" style="1" customWidth="1"/></cols><sheetData>` +
		`<row r="1" spans="1:11" ht="15"><c r="A1" t="s"><v>0</v></c><c r="B1" s="1" t="s"><v>1</v></c><c r="C1" s="1" t="s"><v>2</v></c><c r="D1" t="s"><v>3</v></c><c r="E1" t="s"><v>4</v></c><c r="F1" t="s"><v>5</v></c><c r="G1" t="s"><v>6</v></c><c r="H1" t="s"><v>7</v></c><c r="I1" t="s"><v>8</v></c><c r="J1" t="s"><v>9</v></c><c r="K1" t="s"><v>10</v></c></row>` +
		`<row r="2" spans="1:11"><c r="A2" t="s"><v>11</v></c><c r="B2" s="1"><v>46337.833333333336</v></c><c r="C2" s="1"><v>46337.916666666664</v></c><c r="D2" t="s"><v>12</v></c><c r="E2" t="s"><v>13</v></c><c r="F2" t="s"><v>14</v></c><c r="G2"><v>199</v></c><c r="H2" s="2"><v>19.899999999999999</v></c><c r="I2"><v>50</v></c><c r="J2"><v>2</v></c><c r="K2" t="s"><v>15</v></c></row>` +
		`<row r="3" spans="1:11"><c r="B3" s="1"/><c r="C3" s="1"/><c r="D3" t="inlineStr"><is><t>desk</t></is></c><c r="E3" t="str"><f>CONCATENATE("书","桌")</f><v>书桌</v></c><c r="F3"><v>0.69999999999999996</v></c><c r="G3"><v>999.5</v></c><c r="H3"><v>99</v></c><c r="I3" t="s"><v>16</v></c></row>` +
		`<row r="5" spans="1:11"><c r="A5" t="s"><v>17</v></c><c r="B5" s="1"><v>46338.417013888888</v></c><c r="C5" s="1"><v>46338.458333333336</v></c><c r="D5" t="s"><v>12</v></c><c r="E5" t="s"><v>13</v></c><c r="G5"><v>199</v></c><c r="H5" s="2"><f>G5/10</f><v>19.899999999999999</v></c><c r="I5"><v>0</v></c><c r="L5" t="b"><v>1</v></c><c r="M5" t="e"><v>#N/A</v></c></row>` +
		`</sheetData><pageMargins left="0.7" right="0.7" top="0.75" bottom="0.75" header="0.3" footer="0.3"/></worksheet>`,
}

// zipped is a file of these parts.
func zipped(t *testing.T, parts map[string]string) string {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for name, content := range parts {
		part, err := w.Create(name)
		if err == nil {
			_, err = io.WriteString(part, content)
		}
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.String()
}

// workbook is the same sale as people type it into Excel, where times are numbers.
func workbook(t *testing.T) string {
	t.Helper()
	book := excelize.NewFile()
	defer func() { _ = book.Close() }()
	at := func(h, m, s int) time.Time { return time.Date(2026, 11, 11, h, m, s, 0, time.UTC) }
	for i, row := range [][]any{
		{"Session", "Opens at", "Closes at", "SKU", "Title", "Variant", "List price", "Price in the sale", "Units", "Limit per shopper", "Description"},
		{"20 点场", at(20, 0, 0), at(22, 0, 0), "lamp", "台灯", "白色", 199, 19.9, 50, 2, "暖光"},
		{nil, nil, nil, "desk", "书桌", nil, 999.5, 99, "unlimited"},
		{"10 点场", at(34, 0, 30), at(35, 0, 0), "lamp", "台灯", nil, 199, 19.9, 0},
	} {
		cell, err := excelize.CoordinatesToCellName(1, i+1)
		if err == nil {
			err = book.SetSheetRow("Sheet1", cell, &row)
		}
		require.NoError(t, err)
	}
	var out bytes.Buffer
	require.NoError(t, book.Write(&out))
	return out.String()
}

// TestSheetsNameEveryWrongLine: an operator corrects all of them at once.
func TestSheetsNameEveryWrongLine(t *testing.T) {
	t.Parallel()
	c := &kit.Call{Words: kit.Words{Lang: httpx.Chinese}}
	rows, err := spreadsheet.Read(strings.NewReplacer("19.90,50", "十九,50", ",desk,", ",,", "2026-11-12 11:00", "明天").Replace(goodSheet))
	require.NoError(t, err)
	var said []string
	for _, f := range planOf(c, time.UTC, rows).flaws {
		said = append(said, f.Message)
	}
	want := []string{"第 2 行，秒杀价：请填写金额，例如 19.90。", "第 3 行，商品编码：必填。", "第 5 行，结束时间：请填写时间，例如 2026-11-11 20:00。"}
	require.Equal(t, "what was said", said, want)
	for file, want := range map[string]string{
		"": "文件为空。", "场次,颜色\n": `第 1 行：不支持的列 "颜色"`, strings.SplitAfter(goodSheet, "\n")[0]: "表头下没有商品。", "\"x": "文件无法读取", "{": "JSON 格式有误",
		"PK\x03\x04": "无法识别该工作簿", zipped(t, map[string]string{"xl/workbook.xml": ofExcel["xl/workbook.xml"]}): "无法识别该工作簿",
		goodSheet[:len(goodSheet)-2] + "\xe5\xff": "文件编码", "{}\n{}": "JSON 格式有误", "场次,Session\n": `列重复 "Session"`, "a" + strings.Repeat(",", spreadsheet.MaxCells): "个单元格",
	} {
		_, _, err := planIn(c, time.UTC, url.Values{"name": {"n"}, "file": {file}})
		if err == nil || !strings.Contains(err.Error()+flawsOf(err), want) {
			t.Errorf("%.40q: %v %s, want %s", file, err, flawsOf(err), want)
		}
	}
}

func flawsOf(err error) (all string) {
	if p, ok := err.(*kit.Problem); ok { //nolint:errorlint // planIn wraps nothing
		for _, f := range p.Errors {
			all += f.Message
		}
	}
	return all
}
