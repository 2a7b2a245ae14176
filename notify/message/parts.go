package message

import (
	"strings"
	"unicode/utf16"
)

// A text of GSM 03.38's alphabet has seven bits a character, any other sixteen; from the second SMS on each has a header,
// so that they are joined again.
const (
	gsmOne, gsmMany   = 160, 153
	wideOne, wideMany = 70, 67
)

// The alphabet, and what takes an escape and a second place.
const (
	gsmBasic    = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
	gsmExtended = "\f^{}\\[~]|€"
)

// Parts is how many SMS a text is charged as. China's carriers count characters, 70 in one and 67 in each of several,
// whatever the alphabet; elsewhere a text of the GSM alphabet has room for 160 and 153. A character that takes two places
// is not split between two SMS.
func Parts(text string, china bool) int {
	one, many, width := gsmOne, gsmMany, gsmWidth
	if china || strings.ContainsFunc(text, func(r rune) bool { return gsmWidth(r) == 0 }) {
		one, many, width = wideOne, wideMany, utf16.RuneLen
	}
	total, parts, used := 0, 1, 0
	for _, r := range text {
		w := width(r)
		if total += w; used+w > many {
			parts, used = parts+1, 0
		}
		used += w
	}
	if total <= one {
		return 1
	}
	return parts
}

// gsmWidth is 0 for what is not in the alphabet.
func gsmWidth(r rune) int {
	switch {
	case strings.ContainsRune(gsmBasic, r):
		return 1
	case strings.ContainsRune(gsmExtended, r):
		return 2
	}
	return 0
}
