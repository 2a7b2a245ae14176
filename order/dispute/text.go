package dispute

import (
	"strings"
	"unicode/utf8"

	"stampede/platform/base/fault"
	"stampede/platform/base/plaintext"
)

// textRunes is the longest text of either side: a few paragraphs.
const textRunes = 500

var errText = fault.Plain(fault.Invalid,
	fault.T("The text must have 1 to 500 characters, one of them visible, and no control characters but line breaks.",
		"请输入 1 至 500 个字，须包含可见文字，除换行外不能含有控制字符。"))

// legible trims the text of a member of the body and refuses one that cannot be kept or
// read: bytes that were not UTF-8, which JSON decoding replaces by U+FFFD, control
// characters, of which Postgres cannot keep U+0000, and characters that turn the
// direction of what follows.
func legible(member, s string) (string, error) {
	s = strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n"))
	bad := func(r rune) bool {
		return r != '\n' && plaintext.Unruly(r) || r == utf8.RuneError
	}
	if n := utf8.RuneCountInString(s); n > textRunes || strings.ContainsFunc(s, bad) || !strings.ContainsFunc(s, plaintext.Visible) {
		return "", errText.At("body."+member, fault.Text{"Write 1 to 500 characters.", "请输入 1 至 500 个字，且须包含可见文字。"})
	}
	return s, nil
}
