package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// callsOfTools are folders whose HTTP clients belong to the load generator and the
// benchmark, which hang with what they measure.
var callsOfTools = []string{"platform/loadgen", "platform/bench"}

// callsWithoutBreaker are files that do without one, for the reason that ADR 10
// gives.
var callsWithoutBreaker = []string{"payment/sandbox/bank.go"}

// TestWhoCallsOutHasABreaker finds code that makes an http.Client in a file without
// a circuit breaker, and uses of http.DefaultClient, which has no time-out either.
func TestWhoCallsOutHasABreaker(t *testing.T) {
	t.Parallel()
	found := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (slices.Contains(callsOfTools, name) || strings.HasPrefix(name, ".") && name != ".") {
			return skipUnless(err)
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		makes, uses, breaker, err := callsOut(name)
		if err != nil {
			return err
		}
		if makes {
			found++
			if !breaker && !slices.Contains(callsWithoutBreaker, name) {
				t.Errorf("%s makes an http.Client without a circuit breaker; see platform/adr/0010-calls-that-can-hang.md", name)
			}
		}
		if uses {
			t.Errorf("%s uses http.DefaultClient, which waits for ever", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 3 {
		t.Errorf("only %d files make an http.Client; does this test still find them?", found)
	}
}

// skipUnless is err, or the word for leaving a folder out.
func skipUnless(err error) error {
	if err != nil {
		return err
	}
	return fs.SkipDir
}

// callsOut tells whether a file makes an http.Client, uses the default one, and
// imports the circuit breaker.
func callsOut(name string) (makes, uses, breaker bool, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		return false, false, false, err
	}
	for _, imported := range file.Imports {
		breaker = breaker || strings.HasSuffix(imported.Path.Value, `failsafe-go/circuitbreaker"`)
	}
	ofHTTP := func(x ast.Expr, names ...string) bool {
		sel, ok := x.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		pkg, ok := sel.X.(*ast.Ident)
		return ok && pkg.Name == "http" && slices.Contains(names, sel.Sel.Name)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			makes = makes || ofHTTP(n.Type, "Client")
		case *ast.SelectorExpr:
			uses = uses || ofHTTP(n, "DefaultClient", "Get", "Post", "PostForm", "Head")
		}
		return true
	})
	return makes, uses, breaker, nil
}
