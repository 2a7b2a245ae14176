package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template/parse"
	"unicode"

	"stampede/inventory/stockoffice"
	"stampede/notify/notifyoffice"
	"stampede/order/orderoffice"
	"stampede/payment/paymentoffice"
	"stampede/platform/edge/office"
	"stampede/platform/identity/peopleoffice"
	"stampede/platform/watch/watchoffice"
	"stampede/platform/workshop/require"
	"stampede/seckill/saleoffice"
)

// ofPages are the names that pages give to documents and what they add to them.
var ofPages = []string{"answer", "carriers", "export", "file", "file_name", "more", "sums", "funnel", "phone", "code", "next", "link", "secret", "url", "picture", "challenge", "difficulty", "kind"}

// TestOfficeNamesMembersOfTheAPI: a template shows nothing for a member that the API does
// not have, and no other test would notice.
func TestOfficeNamesMembersOfTheAPI(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("platform/edge/httpx/openapi.json")
	require.NoError(t, err)
	var doc struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	require.NoError(t, json.Unmarshal(raw, &doc))
	members := map[string]bool{}
	for _, schema := range doc.Components.Schemas {
		for name := range schema.Properties {
			members[name] = true
		}
	}
	var files []string
	patterns := []string{"platform/*/*office/*.html", "platform/edge/office/templates/*.html"}
	for _, module := range modules { // not *, which would look into git's folder: see TestImportsFollowTheArchitecture
		patterns = append(patterns, module+"/*office/*.html")
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		files = append(files, found...)
	}
	if len(files) < 20 {
		t.Fatalf("only %d templates were found", len(files))
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		page := parse.New(name)
		page.Mode = parse.SkipFuncCheck
		trees := map[string]*parse.Tree{}
		_, err = page.Parse(string(raw), "", "", trees)
		require.NoError(t, err)
		for _, tree := range trees {
			for _, member := range membersIn(tree.Root) {
				if !members[member] && !slices.Contains(ofPages, member) {
					t.Errorf("%s shows %s, which no document of the API has", name, member)
				}
			}
		}
	}
	if planted, err := parse.Parse("planted", "{{define \"x\"}}{{range .Data.orders.data}}{{$.Time .creatd_at}}{{end}}{{end}}", "", ""); err != nil || !slices.Contains(membersIn(planted["x"].Root), "creatd_at") {
		t.Errorf("a planted member was not found: %v", err)
	}
}

// TestOfficeSendsWhatTheAPIRequires: a form without a required member is refused for what its operator cannot fill in.
func TestOfficeSendsWhatTheAPIRequires(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("platform/edge/httpx/openapi.json")
	require.NoError(t, err)
	type body struct {
		Ref      string `json:"$ref"`
		Required []string
	}
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Required bool
				Content  map[string]struct{ Schema body }
			}
		}
		Components struct{ Schemas map[string]body }
	}
	require.NoError(t, json.Unmarshal(raw, &doc))
	parameter := regexp.MustCompile(`{[^}]*}`)
	required := map[string][]string{}
	for path, operations := range doc.Paths {
		for method, op := range operations {
			schema := op.RequestBody.Content["application/json"].Schema
			if name, is := strings.CutPrefix(schema.Ref, "#/components/schemas/"); is {
				schema = doc.Components.Schemas[name]
			}
			if !op.RequestBody.Required {
				schema.Required = nil
			}
			required[strings.ToUpper(method)+" "+parameter.ReplaceAllString(path, "{}")] = schema.Required
		}
	}
	looked := 0
	for _, section := range []office.Section{
		orderoffice.Section(), saleoffice.Section(), paymentoffice.Section(), watchoffice.Section(), stockoffice.Section(), peopleoffice.Section(), notifyoffice.Section(),
	} {
		for _, act := range section.Acts {
			needs, known := required[parameter.ReplaceAllString(act.API, "{}")]
			if !known {
				t.Errorf("%s sends %s, which the API does not have", act.Path, act.API)
			}
			if act.Make != nil || act.Body != nil {
				continue
			}
			looked++
			for _, member := range needs {
				if !slices.ContainsFunc(act.Fields, func(f office.Field) bool { name, _, _ := strings.Cut(f.Name, "."); return name == member }) {
					t.Errorf("%s has no field for %s, which %s requires", act.Path, member, act.API)
				}
			}
		}
	}
	if looked < 30 {
		t.Errorf("only %d forms were looked at", looked)
	}
}

// membersIn are the names of JSON members in a template, which begin with a small
// letter; what follows Data is the page's own name of a document.
func membersIn(node parse.Node) (found []string) {
	add := func(names []string) {
		for i, name := range names {
			if unicode.IsLower(rune(name[0])) && (i == 0 || names[i-1] != "Data") {
				found = append(found, name)
			}
		}
	}
	var walk func(parse.Node)
	branch := func(b *parse.BranchNode) {
		walk(b.Pipe)
		walk(b.List)
		if b.ElseList != nil {
			walk(b.ElseList)
		}
	}
	walk = func(node parse.Node) {
		switch n := node.(type) {
		case *parse.ListNode:
			for _, child := range n.Nodes {
				walk(child)
			}
		case *parse.ActionNode:
			walk(n.Pipe)
		case *parse.PipeNode:
			for _, c := range n.Cmds {
				for _, arg := range c.Args {
					walk(arg)
				}
			}
		case *parse.TemplateNode:
			if n.Pipe != nil {
				walk(n.Pipe)
			}
		case *parse.IfNode:
			branch(&n.BranchNode)
		case *parse.RangeNode:
			branch(&n.BranchNode)
		case *parse.WithNode:
			branch(&n.BranchNode)
		case *parse.FieldNode:
			add(n.Ident)
		case *parse.VariableNode:
			add(n.Ident[1:])
		case *parse.ChainNode:
			add(n.Field)
		}
	}
	walk(node)
	return found
}
