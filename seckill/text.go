package seckill

import (
	"strings"
	"unicode"
	"unicode/utf8"
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
	f.add(least == 0 || n < least || strings.ContainsFunc(s, visible), location, s, "This text has no visible character; write at least one letter, digit or symbol.")
	f.add(inEncoding(s), location, s, "This text was not sent as UTF-8, or contains U+FFFD; send it again as UTF-8.")
	f.add(!strings.ContainsFunc(s, unruly), location, s, "This contains a control character, a line break or a character that changes the direction of writing; remove it.")
}

// inEncoding refuses U+FFFD, which JSON decoding substitutes for bytes that are
// not UTF-8: the original text is lost by then.
func inEncoding(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsRune(s, utf8.RuneError)
}

// unruly reports characters that affect text around them: they break a log line,
// or make what follows read backwards. Joiners and variation selectors, which
// emoji and many scripts need, are allowed.
func unruly(r rune) bool {
	switch {
	case unicode.IsControl(r), // C0, DEL, C1; Postgres cannot keep the first of them
		r == '\u2028', r == '\u2029', // line and paragraph separators
		r >= '\u202a' && r <= '\u202e', // embeddings and overrides
		r >= '\u2066' && r <= '\u2069': // isolates
		return true
	default:
		return false
	}
}

// visible reports whether a character alone is visible. Four letters and a
// symbol are blank by definition.
func visible(r rune) bool {
	switch r {
	case '\u115f', '\u1160', '\u3164', '\uffa0', '\u2800': // Hangul fillers, the empty Braille pattern
		return false
	default:
		return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S)
	}
}
