package company

import (
	"fmt"
	"regexp"
	"strconv"
)

// Yuan writes an amount in fen.
func Yuan(fen int64) string { return fmt.Sprintf("%d.%02d", fen/100, fen%100) } //nolint:mnd // fen in a yuan

var yuanPattern = regexp.MustCompile(`^(0|[1-9]\d{0,13})(?:\.(\d{1,2}))?$`)

// ParseYuan reads an amount as fen. It accepts what the companies write and nothing else: an
// amount is money, and must not be rounded.
func ParseYuan(text string) (fen int64, err error) {
	m := yuanPattern.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%.40q is not an amount in yuan", text)
	}
	return strconv.ParseInt(m[1]+(m[2] + "00")[:2], 10, 64)
}
