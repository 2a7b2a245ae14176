// Package plaintext has what a text may contain that people wrote and that is shown
// beside others: on pages, labels and receipts, in lists and in logs.
package plaintext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Unruly reports characters that affect text around them: they break a log line,
// or make what follows read backwards. Joiners and variation selectors, which
// emoji and many scripts need, are allowed.
func Unruly(r rune) bool {
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

// Visible reports whether a character alone is visible. Four letters and a
// symbol are blank by definition.
func Visible(r rune) bool {
	switch r {
	case '\u115f', '\u1160', '\u3164', '\uffa0', '\u2800': // Hangul fillers, the empty Braille pattern
		return false
	default:
		return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S)
	}
}

// Legible reports whether a text can be kept and read: a character of it is visible, and none affects the text
// around it or stands for bytes that were no UTF-8, which JSON decoding replaces. With lines it may have line breaks.
func Legible(s string, lines bool) bool {
	return strings.ContainsFunc(s, Visible) && !strings.ContainsFunc(s, func(r rune) bool {
		return r == utf8.RuneError || Unruly(r) && (r != '\n' || !lines)
	})
}

// Clean trims a text and removes the format characters that come along when people
// copy: phones put marks of direction around numbers, chats put spaces of no width
// into addresses. They cannot be seen, so that a refusal would only puzzle. Joiners stay.
func Clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) && r != '\u200c' && r != '\u200d' {
			return -1
		}
		return r
	}, s))
}
