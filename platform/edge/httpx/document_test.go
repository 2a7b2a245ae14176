package httpx_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"stampede/platform/workshop/require"
)

type operation struct {
	ID         string `json:"operationId"`
	Summary    string
	Tags       []string
	Parameters []struct {
		Name   string
		Schema schema
	}
	RequestBody answer
	Responses   map[string]answer
}

type answer struct {
	Content map[string]map[string]any // by media type: example, schema
	Headers map[string]any
}

type schema struct {
	Type       any // a name, or a list with "null"
	Format     string
	Properties map[string]schema
	Items      *schema
}

func (s schema) is(kind string) bool {
	list, _ := s.Type.([]any)
	return s.Type == kind || slices.Contains(list, any(kind))
}

// members calls each for every member of an object, and of what is inside it.
func (s schema) members(each func(name string, of, member schema)) {
	for name, member := range s.Properties {
		each(name, s, member)
		member.members(each)
	}
	if s.Items != nil {
		s.Items.members(each)
	}
}

// document returns the committed document's operations by path and method, and its schemas.
func document(t *testing.T) (paths map[string]map[string]operation, schemas map[string]schema) {
	t.Helper()
	raw, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	var doc struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]schema }
	}
	require.NoError(t, json.Unmarshal(raw, &doc))
	return doc.Paths, doc.Components.Schemas
}

// A client generated from the document has names for the things, not for the Go
// types behind them: none with an inner type's ending, or with the number that huma
// appends to a duplicate.
func TestDocumentNamesAreForClients(t *testing.T) {
	t.Parallel()
	paths, schemas := document(t)
	inner := regexp.MustCompile(`(Body|View|Document|Struct|Input|Output|[0-9])$`)
	for name := range schemas {
		if inner.MatchString(name) {
			t.Errorf("the schema %s needs a name for clients: name its type, or give its field the tag nameHint", name)
		}
	}
	word := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	first := map[string]string{}
	for path, on := range paths {
		for method, op := range on {
			if other := first[op.ID]; other != "" || !word.MatchString(op.ID) {
				t.Errorf("%s %s has the operationId %q, as has %q", method, path, op.ID, other)
			}
			first[op.ID] = method + " " + path
			if failed := slices.ContainsFunc(slices.Collect(maps.Keys(op.Responses)), func(s string) bool { return s >= "4" }); op.Summary == "" || len(op.Tags) != 1 || !failed {
				t.Errorf("%s %s needs a summary (%q), one tag (%q) and its refusals", method, path, op.Summary, op.Tags)
			}
		}
	}
}

// anyTime are the times and days that need no ending; time says what they are of.
var anyTime = regexp.MustCompile(`^(at|from|until|server_time|timestamp|day|date)$|_(at|from|until|day)$`)

// anID ends the names of ids and numbers of orders, payments, refunds.
var anID = regexp.MustCompile(`(^|_)(id|ids|no)$`)

// otherWords are names for explanations besides reason, and where they are something else:
// an operator's or a shopper's note on an order, the texts of a conversation, huma's message.
var otherWords = map[string]string{
	"note": "ActionList AdminRefund Checkout Choices Details OrderNote RunDetail StatusChange Unsettled",
	"text": "DisputeText DisputeWriting", "message": "ErrorDetail",
	"comment": "", "remark": "", "explanation": "", "memo": "", "why": "",
}

// TestDocumentHasOneWordForOneThing: what a client has learned of one operation is true of all.
func TestDocumentHasOneWordForOneThing(t *testing.T) {
	t.Parallel()
	paths, schemas := document(t)
	for of, s := range schemas {
		s.members(func(name string, object, member schema) {
			if places, other := otherWords[name]; other && !slices.Contains(strings.Fields(places), of) {
				t.Errorf("%s.%s: call an explanation reason", of, name)
			}
			checkNames(t, of+"."+name, name, member)
			_, amount := object.Properties["amount"]
			_, currency := object.Properties["currency"]
			money := amount && currency && len(object.Properties) == 2
			if !money && (name == "currency" || name == "amount" && member.is("integer")) {
				t.Errorf("%s: money is an amount and its currency, and nothing else", of)
			}
		})
	}
	for path, on := range paths {
		for method, op := range on {
			for _, p := range op.Parameters {
				checkNames(t, method+" "+path+" "+p.Name, p.Name, p.Schema)
			}
		}
	}
}

func checkNames(t *testing.T, place, name string, s schema) {
	t.Helper()
	if (s.Format == "date-time" || s.Format == "date") && !anyTime.MatchString(name) {
		t.Errorf("%s: let a time end in _at, _from or _until, and a day in day", place)
	}
	if s.Items != nil {
		s = *s.Items
	}
	if anID.MatchString(name) && !s.is("string") {
		t.Errorf("%s: an id is a string", place)
	}
}

// TestExamplesFitTheirSchemas: each JSON body has an example, which is valid and says
// something. A text of which no example is known is shown as "string".
func TestExamplesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	require.NoError(t, compiler.AddResource("openapi.json", tree))
	check := func(body answer, place ...string) {
		media := body.Content["application/json"]
		if media == nil {
			return
		}
		name := strings.Join(place, " ")
		pointer := "openapi.json#/paths"
		for _, step := range append(place, "content", "application/json", "schema") {
			pointer += "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(step))
		}
		compiled, err := compiler.Compile(pointer)
		require.NoError(t, err)
		if err := compiled.Validate(media["example"]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, unknown := range withoutExample("", media["example"]) {
			t.Errorf("%s: give the member %s an example (the tag `example`)", name, unknown)
		}
	}
	paths, _ := document(t)
	for path, on := range paths {
		for method, op := range on {
			check(op.RequestBody, path, method, "requestBody")
			for status, answer := range op.Responses {
				if status < "3" {
					check(answer, path, method, "responses", status)
				}
			}
		}
	}
}

// withoutExample lists the members of an example that are shown as "string".
func withoutExample(name string, value any) (unknown []string) {
	switch v := value.(type) {
	case string:
		if v == "string" {
			return []string{name}
		}
	case []any:
		for _, entry := range v {
			unknown = append(unknown, withoutExample(name, entry)...)
		}
	case map[string]any:
		for member, of := range v {
			unknown = append(unknown, withoutExample(member, of)...)
		}
	}
	return unknown
}
