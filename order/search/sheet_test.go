package search

import (
	"strconv"
	"testing"

	"github.com/google/uuid"
)

// pieces counts what a file is sent in.
type pieces struct{ total, largest int }

func (p *pieces) Write(b []byte) (int, error) {
	p.total, p.largest = p.total+len(b), max(p.largest, len(b))
	return len(b), nil
}

// TestFilesAreSentInPieces checks that no file is put together in memory before it is
// sent: what memory an export takes does not grow with its rows.
func TestFilesAreSentInPieces(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	for _, format := range []string{"csv", "xlsx"} {
		var sent pieces
		out, err := newSheet(format, &sent)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(out.discard)
		cells := make([]string, len(heading))
		for row := range 4000 {
			for i := range cells {
				cells[i] = strconv.Itoa(row)
			}
			cells[0] = uuid.NewString() // which no compression shrinks to nothing
			if err := out.write(cells); err != nil {
				t.Fatal(err)
			}
		}
		if err := out.close(); err != nil {
			t.Fatal(err)
		}
		if sent.total < 2*most || sent.largest > most {
			t.Errorf("%s of %d bytes is sent in pieces of up to %d", format, sent.total, sent.largest)
		}
	}
}

// TestTextsAreNoFormulas checks what spreadsheets read of texts that a person typed.
func TestTextsAreNoFormulas(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		"": "", "red": "red", "=1+1": "'=1+1", "+86": "'+86", "@SUM(A1)": "'@SUM(A1)", "-1+1": "'-1+1", "-100": "-100", "\t=1": "'\t=1", "\r=1": "'\r=1", "a=1": "a=1",
	} {
		if got := defused(cell); got != want {
			t.Errorf("%q is written as %q, want %q", cell, got, want)
		}
	}
}
