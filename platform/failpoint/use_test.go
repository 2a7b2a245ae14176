package failpoint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"stampede/platform/failpoint"
)

// use is one call of a point's method somewhere in the code.
type use struct{ variable, method, where string }

// TestEveryPointIsReachedInOnePlace parses the code: a point that nothing reaches
// would make a test of kill points wait for ever, and one that two places share
// would not say where the process died.
func TestEveryPointIsReachedInOnePlace(t *testing.T) {
	named := variables(t)
	if len(named) != len(failpoint.Points()) {
		t.Errorf("%d variables for %d points", len(named), len(failpoint.Points()))
	}
	uses := make(map[string][]use)
	for _, u := range usesBelow(t, "../..") {
		uses[u.variable] = append(uses[u.variable], u)
		if _, ok := named[u.variable]; !ok {
			t.Errorf("%s: failpoint.%s is not in the table", u.where, u.variable)
		}
	}
	points := make(map[string]*failpoint.Point)
	for _, p := range failpoint.Points() {
		if points[p.Name()] != nil {
			t.Errorf("two points are called %s", p.Name())
		}
		points[p.Name()] = p
		if !strings.HasSuffix(p.About(), ".") || strings.ContainsAny(p.Name(), "=,@ ") {
			t.Errorf("point %q: %q must be a sentence, and the name must fit into the variable", p.Name(), p.About())
		}
	}
	for variable, name := range named {
		p := points[name]
		if p == nil {
			t.Errorf("failpoint.%s: no point is called %q", variable, name)
			continue
		}
		switch found := uses[variable]; {
		case len(found) != 1:
			t.Errorf("failpoint.%s is reached in %d places, want one: %v", variable, len(found), found)
		case (found[0].method == "Err") != failpoint.Fails(p):
			t.Errorf("%s: failpoint.%s.%s does not fit the table: Err is for points made with mayFail, Pass for the others", found[0].where, variable, found[0].method)
		}
	}
}

// variables maps the table's variables to the names given to them.
func variables(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "table.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]string)
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		if call, ok := v.Values[0].(*ast.CallExpr); ok && len(call.Args) == 2 {
			if name, ok := call.Args[0].(*ast.BasicLit); ok {
				named[v.Names[0].Name] = strings.Trim(name.Value, `"`)
			}
		}
		return true
	})
	return named
}

// usesBelow finds failpoint.X.Pass() and failpoint.X.Err() in the code below dir,
// tests left out.
func usesBelow(t *testing.T, dir string) []use {
	t.Helper()
	var uses []use
	fset := token.NewFileSet()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != dir && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || method.Sel.Name != "Pass" && method.Sel.Name != "Err" {
				return true
			}
			variable, ok := method.X.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := variable.X.(*ast.Ident); ok && pkg.Name == "failpoint" {
				uses = append(uses, use{variable.Sel.Name, method.Sel.Name, fset.Position(call.Pos()).String()})
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return uses
}
