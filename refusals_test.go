package main

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"stampede/platform/base/fault"
)

// Each code of a refusal says in both languages what to do instead, and each that the
// document names for an operator's route is such a code.
func TestEveryRefusalSaysWhatToDoInstead(t *testing.T) {
	t.Parallel()
	known := fault.Codes()
	for _, code := range slices.Sorted(maps.Keys(known)) {
		next := fault.NextOf(code)
		chinese := strings.ContainsFunc(next[1], func(r rune) bool { return unicode.Is(unicode.Han, r) })
		if next[0] == "" || !chinese || strings.ContainsFunc(next[0], func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
			t.Errorf("%s (%s): instead %q; add it to the package's next.go", code, known[code][0], next)
		}
	}
	doc, err := documented()
	if err != nil {
		t.Fatal(err)
	}
	walked := 0
	for route, methods := range doc.at("paths") {
		if !strings.HasPrefix(route, "/api/v1/admin/") {
			continue
		}
		for method := range methods.(map[string]any) {
			for status := range doc.at("paths", route, method, "responses") {
				if n, _ := strconv.Atoi(status); n < http.StatusBadRequest {
					continue
				}
				text, _ := doc.at("paths", route, method, "responses", status)["description"].(string)
				for code := range strings.SplitSeq(text, ", ") {
					if walked++; known[code][0] == "" {
						t.Errorf("%s %s names the code %q for %s, which no fault has", method, route, code, status)
					}
				}
			}
		}
	}
	if walked < 500 {
		t.Errorf("only %d refusals were walked", walked)
	}
}
