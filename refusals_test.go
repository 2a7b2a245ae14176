package main

import (
	"go/ast"
	"go/token"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"stampede/platform/base/fault"
	"stampede/platform/workshop/shop"
)

// Each code of a refusal says in both languages what to do instead, and each that the
// document names for an operator's route is such a code.
func TestEveryRefusalSaysWhatToDoInstead(t *testing.T) {
	t.Parallel()
	known := fault.Codes()
	for _, code := range slices.Sorted(maps.Keys(known)) {
		next := known[code].Next
		chinese := strings.ContainsFunc(next[1], func(r rune) bool { return unicode.Is(unicode.Han, r) })
		if next[0] == "" || !chinese || strings.ContainsFunc(next[0], func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
			t.Errorf("%s (%s): instead %q; the words belong to its declaration", code, known[code].Title[0], next)
		}
	}
	doc, err := shop.Documented()
	if err != nil {
		t.Fatal(err)
	}
	walked := 0
	for route, methods := range doc.At("paths") {
		if !strings.HasPrefix(route, "/api/v1/admin/") {
			continue
		}
		for method := range methods.(map[string]any) {
			for status := range doc.At("paths", route, method, "responses") {
				if n, _ := strconv.Atoi(status); n < http.StatusBadRequest {
					continue
				}
				text, _ := doc.At("paths", route, method, "responses", status)["description"].(string)
				for code := range strings.SplitSeq(text, ", ") {
					if walked++; known[code] == nil {
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

// A sentence has the same figures in both languages, and all of them are given.
func TestSentencesHaveBothLanguages(t *testing.T) {
	t.Parallel()
	all, err := parseAll()
	if err != nil {
		t.Fatal(err)
	}
	placeholder := regexp.MustCompile(`(?:^|[^/])\{([a-z_]+)\}`) // /orders/{no} is a route
	names := func(text string) (found []string) {
		for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
			found = append(found, m[1])
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	han := func(text string) bool {
		return strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
	}
	said := 0
	for name, file := range all {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !isText(call.Fun, strings.HasPrefix(name, "platform/base/fault/")) || len(call.Args) < 2 {
				return true
			}
			english, one := literal(call.Args[0])
			chinese, other := literal(call.Args[1])
			if !one || !other {
				return true
			}
			said++
			var given []string
			for i := 2; i < len(call.Args); i += 2 {
				figure, _ := literal(call.Args[i])
				given = append(given, figure)
			}
			slices.Sort(given)
			// A sentence that only joins others has no words of its own.
			joins := strings.Trim(placeholder.ReplaceAllString(english, ""), " .:") == ""
			if han(english) || !han(chinese) && !joins && !strings.HasPrefix(english, "NATS") {
				t.Errorf("%s: %q is %q in Chinese", name, english, chinese)
			}
			for _, figure := range names(chinese) {
				if !slices.Contains(given, figure) {
					t.Errorf("%s: %q is not given the figure %s of its Chinese", name, english, figure)
				}
			}
			if !slices.Equal(names(english), given) {
				t.Errorf("%s: %q is given %v", name, english, given)
			}
			return true
		})
	}
	if said < 350 {
		t.Errorf("only %d sentences were found", said)
	}
}

// isText reports whether a call makes a fault.Text, in package fault or elsewhere.
func isText(fun ast.Expr, inside bool) bool {
	switch fun := fun.(type) {
	case *ast.SelectorExpr:
		pkg, ok := fun.X.(*ast.Ident)
		return ok && pkg.Name == "fault" && fun.Sel.Name == "T"
	case *ast.Ident:
		return inside && fun.Name == "T"
	}
	return false
}

// literal is a text in a source, in one part or several.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, one := literal(e.X)
		right, other := literal(e.Y)
		return left + right, one && other && e.Op == token.ADD
	}
	return "", false
}
