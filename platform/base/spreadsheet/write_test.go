package spreadsheet_test

import (
	"testing"

	"stampede/platform/base/spreadsheet"
	"stampede/platform/workshop/require"
)

// TestTextsAreNoFormulas checks what spreadsheets read of texts that a person typed.
func TestTextsAreNoFormulas(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		"": "", "red": "red", "=1+1": "'=1+1", "+86": "'+86", "@SUM(A1)": "'@SUM(A1)", "-1+1": "'-1+1", "-100": "-100", "\t=1": "'\t=1", "\r=1": "'\r=1", "\n=1": "'\n=1", "＝1+1": "'＝1+1", "＠SUM(A1)": "'＠SUM(A1)", "手机": "手机", "a=1": "a=1",
	} {
		require.Equal(t, cell, spreadsheet.Defused(cell), want)
	}
}

// TestLongNumbersStayTexts checks what spreadsheets would round.
func TestLongNumbersStayTexts(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		"": "", "773123456789": "773123456789\t", "77312345678": "77312345678", "1e5": "1e5\t", "0198f2c8b5d0": "0198f2c8b5d0", "=1+1": "'=1+1", "-5": "-5",
	} {
		require.Equal(t, cell, spreadsheet.Text(cell), want)
	}
}
