package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"stampede/platform/workshop/require"
)

// platformRoutes are the API resources that platform itself serves; every other
// one in the document belongs to a module.
var platformRoutes = []string{"auth", "challenge", "me", "admin/alarms", "admin/api-keys", "admin/audit", "admin/backups", "admin/blacklist", "admin/dead-letters", "admin/messages", "admin/proof", "admin/users"}

// TestShopKitLinksNoModule: what plays against the program from outside is built without
// its modules and without the server of NATS, so that it cannot reach into them.
func TestShopKitLinksNoModule(t *testing.T) {
	t.Parallel()
	next := []string{"platform/workshop/shop", "platform/workshop/shop/programs"}
	for at := 0; at < len(next); at++ {
		for name, file := range parsed(t, next[at]) {
			for _, spec := range file.Imports {
				imported, ours := strings.CutPrefix(textOf(spec.Path), "stampede/")
				top, _, _ := strings.Cut(imported, "/")
				switch {
				case path.Dir(name) != next[at]: // a folder below
				case slices.Contains(modules, top) || strings.Contains(imported, "nats-server"):
					t.Errorf("%s, which the shop's kit links, imports %s", name, imported)
				case ours && !slices.Contains(next, imported):
					next = append(next, imported)
				}
			}
		}
	}
}

// names are the words that only modules may use, with the kind of each.
type names map[string]string

// TestPlatformNamesNothingOfAModule checks that platform knows no module: a
// module passes whatever platform needs when it registers. platform/workshop
// plays shoppers and therefore knows the shop's routes and answers.
func TestPlatformNamesNothingOfAModule(t *testing.T) {
	t.Parallel()
	words := moduleNames(t)
	kinds := map[string]int{}
	for _, kind := range words {
		kinds[kind]++
	}
	for kind, least := range map[string]int{"route": 7, "type": 100, "code": 30, "event": 5} {
		if kinds[kind] < least {
			t.Fatalf("found only %d words of kind %s; the search for them is broken: %v", kinds[kind], kind, kinds)
		}
	}
	files := 0
	for name, file := range parsed(t, "platform") {
		if strings.HasPrefix(name, "platform/workshop/") {
			continue
		}
		files++
		for _, text := range literals(file) {
			for _, found := range words.in(text) {
				t.Errorf("%s: %.80q names %s", name, text, found)
			}
		}
	}
	if files < 100 {
		t.Fatalf("only %d files of platform were read", files)
	}
}

func TestPlantedNamesAreFound(t *testing.T) {
	t.Parallel()
	words := moduleNames(t)
	for text, want := range map[string]string{
		"/api/v1/orders/{no}":         "the route orders",
		"orders/":                     "the route orders",
		`json:"x" example:"sold-out"`: "the code sold-out",
		"no-token, not-entered":       "the code not-entered",
		"AdminOrder":                  "the type AdminOrder",
		"events.order.paid":           "the event events.order.paid",
		"/api/v1/auth/login":          "",
		"not-found, no-token":         "",
		"ORDER BY created_at":         "",
	} {
		require.Equal(t, "the words in "+text, strings.Join(words.in(text), " and "), want)
	}
}

var (
	// word matches the parts of a name.
	word = regexp.MustCompile(`[\w.-]+`)
	// variable matches a setting's variable in its field's tag.
	variable = regexp.MustCompile(`env:"(STAMPEDE_\w+)"`)
)

// in lists the names in a string.
func (n names) in(text string) []string {
	var found []string
	said := word.FindAllString(text, -1)
	_, path, route := strings.Cut(text, "/api/v1/")
	if !route {
		path = text
	}
	for name, kind := range n {
		var named bool
		switch kind {
		case "route":
			named = strings.HasPrefix(path, name+"/") || route && path == name
		case "code", "alarm": // a plain English word counts only if it is the whole string
			named = text == name || strings.Contains(name, "-") && slices.Contains(said, name)
		case "setting": // as a variable or as a flag
			flag := "--" + strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "STAMPEDE_"), "_", "-"))
			named = slices.Contains(said, name) || slices.Contains(said, flag)
		case "event":
			named = strings.Contains(text, name)
		default:
			named = text == name
		}
		if named {
			found = append(found, "the "+kind+" "+name)
		}
	}
	slices.Sort(found)
	return found
}

// moduleNames collects the names that belong to modules and to no part of platform.
func moduleNames(t *testing.T) names {
	t.Helper()
	words := names{}
	for _, module := range modules {
		for name, file := range parsed(t, module) {
			collect(words, name, file)
		}
	}
	platform := names{}
	for name, file := range parsed(t, "platform") {
		collect(platform, name, file)
	}
	for name := range platform {
		delete(words, name)
	}
	raw, err := os.ReadFile("platform/edge/httpx/openapi.json")
	require.NoError(t, err)
	var doc struct{ Paths map[string]any }
	require.NoError(t, json.Unmarshal(raw, &doc))
	for path := range doc.Paths {
		parts := strings.Split(strings.TrimPrefix(path, "/api/v1/"), "/")
		resource := parts[0]
		if resource == "admin" {
			resource += "/" + parts[1]
		}
		if !slices.Contains(platformRoutes, resource) {
			words[resource] = "route"
		}
	}
	return words
}

// makers are the functions of platform that define a module's word, with the
// argument that contains the word.
var makers = map[string]struct {
	argument int
	kind     string
}{
	"fault.New":    {1, "code"},
	"alarm.Define": {0, "alarm"},
}

// collect adds a file's declarations, exported as the OpenAPI document would
// spell them, because a generated client sees types that way.
func collect(words names, name string, file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			if !strings.Contains(name, "/internal/") {
				words[strings.ToUpper(n.Name.Name[:1])+n.Name.Name[1:]] = "type"
			}
		case *ast.Field:
			if n.Tag != nil {
				if found := variable.FindStringSubmatch(textOf(n.Tag)); found != nil {
					words[found[1]] = "setting"
				}
			}
		case *ast.CallExpr:
			fun, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := fun.X.(*ast.Ident); ok {
				made, ok := makers[pkg.Name+"."+fun.Sel.Name]
				if !ok {
					return true
				}
				if text := textOf(n.Args[made.argument]); text != "" {
					words[text] = made.kind
				}
			}
		case *ast.ValueSpec:
			for _, value := range n.Values {
				if text := textOf(value); strings.HasPrefix(text, "events.") && !strings.HasSuffix(text, "*") {
					words[text] = "event"
				}
			}
		}
		return true
	})
}

// parsed returns the files below a module's or platform's folder, without tests.
func parsed(t *testing.T, folder string) map[string]*ast.File {
	t.Helper()
	all, err := parseAll()
	require.NoError(t, err)
	files := map[string]*ast.File{}
	for name, file := range all {
		if strings.HasPrefix(name, folder+"/") {
			files[name] = file
		}
	}
	return files
}

// parseAll parses the files of all modules and of platform once for all tests.
var parseAll = sync.OnceValues(func() (map[string]*ast.File, error) {
	files := map[string]*ast.File{}
	fset := token.NewFileSet()
	for _, folder := range append([]string{"platform"}, modules...) {
		err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
				files[filepath.ToSlash(name)], err = parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
})

// literals returns the strings of a file without its imports.
func literals(file *ast.File) []string {
	var texts []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				texts = append(texts, textOf(n))
			}
		}
		return true
	})
	return texts
}

// textOf returns the value of a string literal, "" for anything else.
func textOf(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(lit.Value) // the parser has read it
	return text
}
