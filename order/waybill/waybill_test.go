package waybill

import (
	"errors"
	"strings"
	"testing"

	"stampede/platform/base/spreadsheet"
	"stampede/platform/workshop/require"
)

// TestNumbersThatSpreadsheetsChange restores a number that still has all of its digits, and
// refuses one that has not.
func TestNumbersThatSpreadsheetsChange(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		" sf1234567890 ": "SF1234567890", "'773123456789": "773123456789", "`773123456789\t": "773123456789", `="773123456789"`: "773123456789",
		"ＳＦ１２３４５６７８９０": "SF1234567890", "SF 1234 5678 90": "SF1234567890", "773123456789.0": "773123456789", "7.73123456789E+11": "773123456789", "\u202a773123456789\u202c": "773123456789",
		"1.23E+15": "spoiled", "7.73123E+11": "spoiled", "1.23456789012345E+15": "spoiled", "784512345678901000": "spoiled", "78451234567890100": "spoiled",
		"7845123456789010": "7845123456789010", "784512345678901001": "784512345678901001", "": "", "-": "-", "JT1234567890123": "JT1234567890123",
	} {
		got, spoiled := Number(typed)
		if spoiled {
			got = "spoiled"
		}
		require.Equal(t, typed, got, want)
	}
}

// TestHeadings finds the columns by what different writers call them, and takes the shop's
// number where a carrier's client has one of its own beside it.
func TestHeadings(t *testing.T) {
	t.Parallel()
	for sheet, want := range map[string]string{
		"order_no,carrier,tracking_no\nA,SF,1": "2 a SF 1",
		"发货记录 2026-11-12\n\n序号,订单号,客户订单号,收件人,运单号码,快递公司\n1,X,A,王,\t1,顺丰\n":    "4 a 顺丰 1",
		"*订单编号（必填）,物流公司,物流单号\nA,,1\n\n合计,1,\n":                               "2 a  1; 4 合计 1 ",
		" Order No. ;Tracking Number\nA;1\n;\nB;2":                           "2 a  1; 4 b  2",
		"order_no,tracking_no\n=\"A\",=\"1\"\n\"=\"\"B\"\"\",\"=\"\"2\"\"\"": "2 a  1; 3 b  2",
		"订单号\nA": "", "": "", "订单号,运单号\n,": "",
	} {
		cells, err := spreadsheet.Read(sheet)
		require.NoError(t, err)
		rows, err := Rows(cells)
		var got []string
		for _, r := range rows {
			got = append(got, strings.Join([]string{string(rune('0' + r.Line)), r.OrderNo, r.Carrier, r.TrackingNo}, " "))
		}
		require.Equal(t, sheet, strings.Join(got, "; "), want)
		require.Equal(t, sheet+": refused", err != nil, want == "")
	}
	cells := append([][]string{{"订单号", "运单号"}}, make([][]string, MaxRows+1)...)
	for i := range cells[1:] {
		cells[i+1] = []string{"a", "1"}
	}
	_, err := Rows(cells)
	require.Equal(t, "too many rows are refused", errors.Is(err, errMany) && strings.Contains(err.Error(), "2000"), true)
	rows, err := Rows(cells[:MaxRows+1])
	require.NoError(t, err)
	require.Equal(t, "as many as there may be", len(rows), MaxRows)
}

// FuzzSheet: whatever a file has in it, a row that is read names its line, and a number that is
// not spoiled stays what it is when it is read again.
func FuzzSheet(f *testing.F) {
	for _, seed := range []string{"订单号,运单号\nA,1.5E+12\n", "\ufefforder_no;tracking_no\n'a;=\"12\"", "订单号,运单号\n\"a\nb\",１２", "PK\x03\x04", "\xb6\xa9\xb5\xa5\xba\xc5,\xd4\xcb\xb5\xa5\xba\xc5\n1,2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, file string) {
		cells, err := spreadsheet.Read(file)
		if err != nil {
			if says := spreadsheet.Says(err); says[0] == "" || says[1] == "" {
				t.Errorf("%v has no words", err)
			}
			return
		}
		rows, err := Rows(cells)
		if (err == nil) != (len(rows) > 0) {
			t.Errorf("%d rows and %v", len(rows), err)
		}
		for _, r := range rows {
			if r.Line < 2 || r.Line > len(cells) {
				t.Errorf("line %d of %d", r.Line, len(cells))
			}
			if again, spoiled := Number(r.TrackingNo); !r.Spoiled && (spoiled || again != r.TrackingNo) {
				t.Errorf("%q becomes %q", r.TrackingNo, again)
			}
		}
	})
}
