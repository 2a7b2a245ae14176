package search

import (
	"archive/zip"
	"bytes"
	"slices"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/xuri/excelize/v2"

	"stampede/platform/workshop/require"
)

// pieces counts what a file is sent in.
type pieces struct{ total, largest int }

func (p *pieces) Write(b []byte) (int, error) {
	p.total, p.largest = p.total+len(b), max(p.largest, len(b))
	return len(b), nil
}

// TestFilesAreSentAsTheyAreWritten checks that no file is put together in memory or on
// disk before it is sent: what an export takes does not grow with its rows, and a client
// sees that it goes on.
func TestFilesAreSentAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	for _, format := range []string{"csv", "xlsx"} {
		var sent pieces
		out, err := newSheet(format, programs, false, &sent)
		require.NoError(t, err)
		cells := make([]string, len(programs.heading))
		for row := range 4000 {
			for i := range cells {
				cells[i] = strconv.Itoa(row)
			}
			cells[0] = uuid.NewString() // which no compression shrinks to nothing
			require.NoError(t, out.write(cells))
		}
		require.NoError(t, out.flush())
		if sent.total < 2*most || sent.largest > most {
			t.Errorf("%s of %d bytes is sent in pieces of up to %d", format, sent.total, sent.largest)
		}
	}
}

// TestWorkbookKeepsTexts reads a workbook as a spreadsheet does.
func TestWorkbookKeepsTexts(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	out, err := newWorkbook(&file, programs)
	require.NoError(t, err)
	row := make([]string, len(programs.heading))
	title, quantity := slices.Index(programs.heading, "title"), slices.Index(programs.heading, "quantity")
	texts := []string{"手机 <b>&\"'</b>", " edges\t", "two\nlines", "=1+1", "a_x0041_b", "_x0041_x0042_", "-5", "_x"}
	for _, text := range texts {
		row[title], row[quantity], row[len(row)-1] = text, "-7", "end"
		require.NoError(t, out.write(row))
	}
	require.NoError(t, out.close())
	parts, err := zip.NewReader(bytes.NewReader(file.Bytes()), int64(file.Len()))
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, f := range parts.File {
		if seen[f.Name] {
			t.Errorf("the archive has %s twice, which spreadsheets call damaged", f.Name)
		}
		seen[f.Name] = true
	}
	book, err := excelize.OpenReader(&file)
	require.NoError(t, err)
	rows, err := book.GetRows(book.GetSheetName(0))
	require.NoError(t, err)
	require.Equal(t, "rows", len(rows), len(texts))
	for i, text := range texts {
		if got := rows[i]; got[title] != text || got[quantity] != "-7" || got[0] != "" || got[len(programs.heading)-1] != "end" {
			t.Errorf("%q is read as %q", text, got)
		}
	}
	kind, err := book.GetCellType(book.GetSheetName(0), string(rune('A'+quantity))+"1")
	if err != nil || kind == excelize.CellTypeInlineString {
		t.Errorf("a quantity has the type %v, %v", kind, err)
	}
}
