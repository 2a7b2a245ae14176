package httpx

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"stampede/platform/workshop/require"
)

// TestWhatFaultsCarryIsDeclared reads from the source the names that faults get by
// With. An undeclared one would be missing in the document, and one with a standard
// member's name would be lost.
func TestWhatFaultsCarryIsDeclared(t *testing.T) {
	t.Parallel()
	standard := map[string]bool{}
	for f := range reflect.TypeFor[Problem]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		standard[name] = true
	}
	raw, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	var doc struct {
		Components struct {
			Schemas struct {
				Problem struct{ Properties map[string]any }
			}
		}
	}
	require.NoError(t, json.Unmarshal(raw, &doc))
	declared := doc.Components.Schemas.Problem.Properties
	used := map[string]bool{"order_no": true, "position": true, "estimated_seconds": true} // the rush writes them itself
	check := func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			member, ok := carried(n)
			if !ok {
				return true
			}
			used[member] = true
			switch {
			case member == "errors": // the only standard member that faults set
			case standard[member]:
				t.Errorf("%s sets %q on a fault, which is a standard member of problems", name, member)
			case declared[member] == nil:
				t.Errorf("%s sets %q on a fault, which no API.Member declares", name, member)
			}
			return true
		})
		return nil
	}
	// Not the folder above them, which has git's: see TestImportsFollowTheArchitecture.
	for _, top := range []string{"seckill", "order", "payment", "inventory", "notify", "platform"} {
		require.NoError(t, filepath.WalkDir("../../../"+top, check))
	}
	for member := range declared {
		if !used[member] && !standard[member] {
			t.Errorf("no fault sets %q", member)
		}
	}
}

// carried returns the name in x.With("name", value), unless x is a logger.
func carried(n ast.Node) (string, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 2 {
		return "", false
	}
	with, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || with.Sel.Name != "With" {
		return "", false
	}
	name, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return "", false
	}
	var of string
	switch x := with.X.(type) {
	case *ast.Ident:
		of = x.Name
	case *ast.SelectorExpr:
		of = x.Sel.Name
	}
	text, err := strconv.Unquote(name.Value)
	return text, err == nil && !strings.HasSuffix(strings.ToLower(of), "log")
}
