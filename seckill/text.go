package seckill

import (
	"strings"
	"unicode/utf8"

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
	f.add(n >= least && n <= most, location, s, "This has %d to %d characters.", least, most)
	f.add(least == 0 || n < least || strings.ContainsFunc(s, plaintext.Visible), location, s, "This text has no visible character; write at least one letter, digit or symbol.")
	f.add(inEncoding(s), location, s, "This text was not sent as UTF-8, or contains U+FFFD; send it again as UTF-8.")
	f.add(!strings.ContainsFunc(s, plaintext.Unruly), location, s, "This contains a control character, a line break or a character that changes the direction of writing; remove it.")
}

// inEncoding refuses U+FFFD, which JSON decoding substitutes for bytes that are
// not UTF-8: the original text is lost by then.
func inEncoding(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsRune(s, utf8.RuneError)
}
