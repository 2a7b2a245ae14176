package spreadsheet_test

import (
	"archive/zip"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"stampede/platform/base/spreadsheet"
	"stampede/platform/workshop/require"
)

// workbook is a workbook of one sheet with these rows and these shared texts, as XML.
func workbook(t *testing.T, rows, texts string) string {
	t.Helper()
	const (
		head = `<?xml version="1.0" encoding="UTF-8"?>`
		main = ` xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"`
		kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
	)
	var file strings.Builder
	w := zip.NewWriter(&file)
	for name, content := range map[string]string{
		"[Content_Types].xml": `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml" ContentType="application/xml"/></Types>`,
		"xl/workbook.xml":     `<workbook` + main + `><sheets><sheet name="S" sheetId="1" r:id="rId1"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels": `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="` + kind +
			`worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="rId2" Type="` + kind + `sharedStrings" Target="sharedStrings.xml"/></Relationships>`,
		"_rels/.rels":              `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="` + kind + `officeDocument" Target="xl/workbook.xml"/></Relationships>`,
		"xl/worksheets/sheet1.xml": `<worksheet` + main + `><sheetData>` + rows + `</sheetData></worksheet>`,
		"xl/sharedStrings.xml":     `<sst` + main + `>` + texts + `</sst>`,
		"xl/media/image1.png":      "\x89PNG<not XML",
	} {
		part, err := w.Create(name)
		require.NoError(t, err)
		_, err = part.Write([]byte(head + content))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return file.String()
}

// A file of some kilobytes takes no more memory or time than a table does, whatever it unpacks to.
func TestWorkbookThatGrows(t *testing.T) { // not parallel: it measures what it allocates
	rows := func(n int, cells string) string { return strings.Repeat("<row>"+cells+"</row>", n) }
	const two = `<c t="s"><v>0</v></c><c t="s"><v> 1</v></c>`
	table, err := spreadsheet.Read(workbook(t, rows(2, two)+`<row><c><v>1</v></c></row>`, `<si><t>a</t></si><si><r><t>b</t></r><r><t>c</t></r></si>`))
	require.NoError(t, err)
	require.Equal(t, "a table", fmt.Sprint(table), "[[a bc] [a bc] [1]]")
	backward, err := spreadsheet.Read(workbook(t, `<row><c r="B1"/><c r="A1"/></row>`, ""))
	require.NoError(t, err)
	require.Equal(t, "cells backward", len(backward), 0)

	for _, bomb := range []struct{ of, rows, texts, says string }{
		{"a text that each cell has", rows(10_000, two), `<si><t>` + strings.Repeat("a", 2000) + `</t></si><si><t>b</t></si>`, "unpacks to more than 8 MiB"},
		{"a rich text that each cell has", rows(10_000, two), `<si><t>b</t></si><si>` + strings.Repeat("<r><t>aaaaaaaaaaaaaaaaaaaaaaaa</t></r>", 1000) + `</si>`, "unpacks to more than 8 MiB"},
		{"a text of escapes", rows(1, `<c t="inlineStr"><is><t>`+strings.Repeat("_x0041_", 5000)+`</t></is></c>`), "", "more than 32 KiB of text"},
		{"a shared text of escapes", rows(1, two), `<si><r><t>` + strings.Repeat("_x0041_", 5000) + `</t></r></si>`, "more than 32 KiB of text"},
		{"empty texts", "", strings.Repeat("<si/>", 300_000), "more than 100000 cells"},
		{"attributes", "<row" + strings.Repeat(` a=""`, 1_500_000) + "/>", "", "more than 100000 cells"},
		{"empty rows", rows(300_000, ""), "", "more than 100000 cells"},
		{"nested cells", strings.Repeat("<c>", 300_000), "", "more than 100000 cells"},
		{"few cells, each at the end of its row", rows(10, `<c r="XFD1"><v>1</v></c>`), "", "more than 100000 cells"},
		{"one long text", "", "<si><t>" + strings.Repeat("x", 9<<20) + "</t></si>", "unpacks to more than 8 MiB"},
		{"much in all", strings.Repeat(" ", 5<<20), strings.Repeat(" ", 5<<20), "unpacks to more than 8 MiB"},
		{"cells in cells", rows(1, `<c t="s"><c t="n"></c><v>0</v></c>`), `<si><t>a</t></si>`, "cannot be read as a workbook"},
		{"a table with damage, after which the library reads no further", rows(1, two) + "<row><c t=\"str\"><v>\x0b</v></c></row>" + rows(1, two), `<si><t>a</t></si>`, "cannot be read as a workbook"},
	} {
		file := workbook(t, bomb.rows, bomb.texts)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := spreadsheet.Read(file)
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 100 {
			t.Errorf("%s: %d MiB were allocated", bomb.of, took)
		}
		if err == nil {
			t.Errorf("%s was read", bomb.of)
			continue
		}
		require.Contains(t, bomb.of, spreadsheet.Says(err)[0], bomb.says)
	}
}
