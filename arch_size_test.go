package main

import (
	"bytes"
	"go/ast"
	"os"
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"stampede/platform/workshop/require"
)

const (
	mostMethods = 40    // of a struct
	mostLines   = 2_000 // of a package that a person wrote, tests apart
	mostColumns = 120   // of a line of main.go, a tab being four
)

// TestRoomsHaveOneIdea counts what a stranger must read to know one thing: a struct's
// methods and a package's lines. A larger package says in its comment, under the heading
// "# Size", why it is one.
func TestRoomsHaveOneIdea(t *testing.T) {
	t.Parallel()
	methods, lines, explained := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, top := range folders {
		for name, file := range parsed(t, top) {
			dir := path.Dir(name)
			if strings.HasSuffix(name, ".sql.go") || strings.HasSuffix(dir, "db") && strings.Contains(dir, "/internal/") {
				continue // sqlc wrote it
			}
			raw, err := os.ReadFile(name)
			require.NoError(t, err)
			lines[dir] += bytes.Count(raw, []byte("\n"))
			explained[dir] = explained[dir] || bytes.Contains(raw, []byte("\n// # Size\n"))
			for _, decl := range file.Decls {
				if fn, is := decl.(*ast.FuncDecl); is && fn.Recv != nil {
					methods[dir+"."+receiver(fn)]++
				}
			}
		}
	}
	for name, n := range methods {
		if n > mostMethods {
			t.Errorf("%s has %d methods, more than %d", name, n, mostMethods)
		}
	}
	for dir, n := range lines {
		if n > mostLines && !explained[dir] {
			t.Errorf("%s has %d lines, more than %d, and its comment gives no reason under the heading Size", dir, n, mostLines)
		}
	}
	if len(methods) < 300 || len(lines) < 80 {
		t.Fatalf("only %d structs in %d packages were read", len(methods), len(lines))
	}
}

// receiver is the name of a method's type.
func receiver(fn *ast.FuncDecl) string {
	of := fn.Recv.List[0].Type
	if pointer, is := of.(*ast.StarExpr); is {
		of = pointer.X
	}
	switch of := of.(type) {
	case *ast.IndexExpr: // a generic type
		return of.X.(*ast.Ident).Name // a type's name
	case *ast.Ident:
		return of.Name
	}
	return ""
}

// TestMainIsReadInOneColumn: the wiring is what a stranger reads first.
func TestMainIsReadInOneColumn(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("main.go")
	require.NoError(t, err)
	number := 0
	for line := range strings.Lines(string(raw)) {
		number++
		if n := utf8.RuneCountInString(strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")); n > mostColumns {
			t.Errorf("main.go:%d has %d columns, more than %d", number, n, mostColumns)
		}
	}
}
