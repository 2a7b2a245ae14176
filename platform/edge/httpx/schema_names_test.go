package httpx_test

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"
)

// A client that is generated from the document has names that say what the thing
// is, not what the type behind it is called: none that ends like an inner type, or
// with the number that huma gives to the second of a name.
func TestTheDocumentsNamesAreForClients(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string
		}
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	inner := regexp.MustCompile(`(Body|View|Document|Struct|Input|Output|[0-9])$`)
	for name := range doc.Components.Schemas {
		if inner.MatchString(name) {
			t.Errorf("the schema %s needs a name for clients: name its type, or give its field the tag nameHint", name)
		}
	}
	word := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	first := map[string]string{}
	for path, on := range doc.Paths {
		for method, op := range on {
			if other := first[op.OperationID]; other != "" || !word.MatchString(op.OperationID) {
				t.Errorf("%s %s has the operationId %q, as has %q", method, path, op.OperationID, other)
			}
			first[op.OperationID] = method + " " + path
		}
	}
}
