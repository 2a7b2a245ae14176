package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"stampede/platform/httpx"
)

// TestEveryCodeHasATitleInBothLanguages reads the codes from the source: a code
// that was forgotten would reach a shopper as "too-hot" instead of words.
func TestEveryCodeHasATitleInBothLanguages(t *testing.T) {
	t.Parallel()
	made := regexp.MustCompile(`fault\.Newf?\(fault\.[A-Za-z]+, "([a-z-]+)"`)
	codes := map[string]string{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(name)
		for _, m := range made.FindAllSubmatch(raw, -1) {
			codes[string(m[1])] = name
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(codes) < 20 {
		t.Fatalf("only %d codes were found; the pattern is broken", len(codes))
	}
	for code, name := range codes {
		if httpx.Title(code, httpx.English) == code || httpx.Title(code, httpx.Chinese) == code {
			t.Errorf("%s uses the code %q, which has no title", name, code)
		}
	}
}
