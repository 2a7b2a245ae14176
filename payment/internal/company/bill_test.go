package company

import (
	"strings"
	"testing"

	"stampede/payment/provider"
)

// A bill is read to its totals and no further; one that is cut off before them is not
// taken for a whole one.
func TestBillIsReadWhole(t *testing.T) {
	t.Parallel()
	form := Bill{
		Comment: "#", Totals: "total",
		Cells: func(row string, _ int) []string { return strings.Split(row, ",") },
		Line: func(cell func(string) string) (provider.Line, bool, error) {
			return provider.Line{Transaction: cell("number")}, cell("state") == "made", nil
		},
	}
	const rows = "\ufeff#a comment\r\n\r\nstate,number (ours)\r\nmade,\t1\r\nopen,2\r\nmade,3\r\n"
	for name, c := range map[string]struct {
		bill, want, err string
		most            int
	}{
		"whole":    {rows + "totals,2\r\nmade,4\r\n", "13", "", 9},
		"enough":   {rows + "totals,2\r\n", "1", "not wanted", 1},
		"cut off":  {rows, "13", "it is cut off", 9},
		"no table": {"#a comment\r\n", "", "no header", 9},
	} {
		got := ""
		err := form.Read(strings.NewReader(c.bill), func(l provider.Line) bool { got += l.Transaction; return len(got) < c.most })
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
