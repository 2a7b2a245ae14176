package cli

import (
	"path/filepath"
	"strings"
)

// self is how this program is started again from whatever folder: by its bare name
// where that is how the shell found it, else by its whole path.
func self(arg0 string) string {
	if !strings.ContainsRune(arg0, filepath.Separator) {
		return arg0
	}
	whole, err := filepath.Abs(arg0)
	if err != nil {
		return arg0 // the working folder is gone, and with it any better answer
	}
	return whole
}

// word is a text as one word of a shell's command line.
func word(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@%+=,", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
