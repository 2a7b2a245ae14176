package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	orderoffice "stampede/order/office"
	paymentoffice "stampede/payment/office"
	watchoffice "stampede/platform/watch/office"
	seckilloffice "stampede/seckill/office"
)

// TestOfficeKnowsSentences: a sentence of the API that is reworded keeps its Chinese, and a
// new rule of a plan or a coupon gets one.
func TestOfficeKnowsSentences(t *testing.T) {
	t.Parallel()
	known := map[string]string{}
	for _, sentences := range []map[string]string{orderoffice.Section().Sentences, paymentoffice.Section().Sentences, watchoffice.Section().Sentences, seckilloffice.Section().Sentences} {
		maps.Copy(known, sentences)
	}
	made, rules := sentencesOfSources(t, "inventory/keys.go", "seckill/*.go", "seckill/*/*.go", "order/*.go", "order/coupon/*.go", "payment/*.go", "payment/refund/*.go", "platform/watch/preflight/*.go")
	for english, chinese := range known {
		direction := strings.NewReplacer("ahead of", "%s", "behind", "%s").Replace(english)
		if !made[english] && !made[direction] {
			t.Errorf("no source says %q", english)
		}
		if figures, used := strings.Count(english, "%")-2*strings.Count(english, "%%"), strings.Count(chinese, "%")-2*strings.Count(chinese, "%%"); !strings.Contains(chinese, "%[") && used != 0 && used != figures {
			t.Errorf("%q has %d figures, %q has %d", english, figures, chinese, used)
		}
	}
	if len(rules) < 70 {
		t.Errorf("only %d rules were found", len(rules))
	}
	for _, english := range append(rules, "session %d", "item %d") {
		if known[english] == "" {
			t.Errorf("operators read %q in English on Chinese pages", english)
		}
	}
}

// sentencesOfSources returns the literals of the files, and of those the formats of rules:
// what flaws.add and check are told.
func sentencesOfSources(t *testing.T, patterns ...string) (made map[string]bool, rules []string) {
	t.Helper()
	made = map[string]bool{}
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/office/") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if e, ok := n.(ast.Expr); ok {
					if text, ok := literal(e); ok {
						made[text] = true
					}
				}
				if call, ok := n.(*ast.CallExpr); ok {
					if text, ok := ruleOf(call); ok && !slices.Contains(rules, text) {
						rules = append(rules, text)
					}
				}
				return true
			})
		}
	}
	return made, rules
}

// ruleOf is the format of a rule that a call checks.
func ruleOf(call *ast.CallExpr) (string, bool) {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		if f.Sel.Name == "add" && len(call.Args) > 3 {
			return literal(call.Args[3])
		}
	case *ast.Ident:
		if f.Name == "check" && len(call.Args) == 3 {
			if made, ok := call.Args[2].(*ast.CallExpr); ok && len(made.Args) > 0 {
				return literal(made.Args[0])
			}
			return literal(call.Args[2])
		}
	}
	return "", false
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
