package cli

import (
	"path/filepath"
	"strings"
)

// self returns the command that starts this program from any folder: its bare
// name if the shell finds it on PATH, else its full path.
func self(arg0 string) string {
	if !strings.ContainsRune(arg0, filepath.Separator) {
		return arg0
	}
	whole, err := filepath.Abs(arg0)
	if err != nil {
		return arg0 // the working folder is gone, so there is no better answer
	}
	return whole
}

// word quotes a text as one word of a shell command line.
func word(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@%+=,", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
