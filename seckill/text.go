package seckill

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Texts that shoppers see: names, titles, specifications. Whatever is taken here
// stands on pages, in orders, in receipts and in logs beside other people's text,
// so it must be legible and stay within its own line.

// name checks the name of an activity or session.
func (f *flaws) name(location, name string) {
	f.text(location, name, 1, maxNameRunes)
}

// text checks a text of a bounded number of characters. One that must not be
// empty has something in it to see.
func (f *flaws) text(location, s string, least, most int) {
	n := utf8.RuneCountInString(s)
	f.add(n >= least && n <= most, location, s, "This has %d to %d characters.", least, most)
	f.add(least == 0 || n < least || strings.ContainsFunc(s, visible), location, s, "There is nothing to see in this text; write at least one letter, digit or sign.")
	f.add(inEncoding(s), location, s, "This text was not sent as UTF-8, or has U+FFFD in it; send it again as UTF-8.")
	f.add(!strings.ContainsFunc(s, unruly), location, s, "This has a control character, a line break or a character that turns the direction of writing; leave it out.")
}

// inEncoding refuses the sign that JSON decoding puts in the place of bytes that
// are not UTF-8: what was meant is lost by then.
func inEncoding(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsRune(s, utf8.RuneError)
}

// unruly reports characters that reach beyond their own text: they break a log
// line, or make what follows read backwards. Joiners and variation selectors, of
// which emoji and many scripts are made, are not among them.
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

// visible reports whether a character leaves something to see by itself. Four
// letters and a symbol are blank by definition.
func visible(r rune) bool {
	switch r {
	case '\u115f', '\u1160', '\u3164', '\uffa0', '\u2800': // Hangul fillers, the empty Braille pattern
		return false
	default:
		return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S)
	}
}
