package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"stampede/platform/workshop/require"
)

// A sentence has the same figures in both languages, and all of them are given.
func TestSentencesHaveBothLanguages(t *testing.T) {
	t.Parallel()
	all, err := parseAll()
	require.NoError(t, err)
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
			joins := strings.Trim(placeholder.ReplaceAllString(english, ""), " .:[]") == ""
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
