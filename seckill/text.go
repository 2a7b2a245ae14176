package seckill

import (
	"strings"
	"unicode/utf8"

	"stampede/platform/base/fault"
	"stampede/platform/base/plaintext"
)

// Texts that shoppers see: names, titles, specifications. They appear on pages,
// in orders, receipts and logs next to other text, so they must be legible and
// must not affect the text around them.

// name checks the name of an activity or session.
func (f *flaws) name(location, name string) {
	f.text(location, name, 1, maxNameRunes)
}

// text checks the length of a text in characters. A text that must not be empty
// must have at least one visible character.
func (f *flaws) text(location, s string, least, most int) {
	n := utf8.RuneCountInString(s)
	f.add(n >= least && n <= most, location, s,
		fault.T("This has {least} to {most} characters.", "长度为 {least} 至 {most} 个字符。", "least", least, "most", most))
	f.add(least == 0 || n < least || strings.ContainsFunc(s, plaintext.Visible), location, s,
		fault.T("This text has no visible character; write at least one letter, digit or symbol.", "请填写可见的文字。"))
	f.add(inEncoding(s), location, s,
		fault.T("This text was not sent as UTF-8, or contains U+FFFD; send it again as UTF-8.", "文字编码有误，请重新输入。"))
	f.add(!strings.ContainsFunc(s, plaintext.Unruly), location, s,
		fault.T("This contains a control character, a line break or a character that changes the direction of "+
			"writing; remove it.",
			"含有换行或不可见的控制字符，请删除。"))
}

// inEncoding refuses U+FFFD, which JSON decoding substitutes for bytes that are
// not UTF-8: the original text is lost by then.
func inEncoding(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsRune(s, utf8.RuneError)
}
