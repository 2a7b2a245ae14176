package httpx_test

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"
)

// A client generated from the document has names for the things, not for the Go
// types behind them: none with an inner type's ending, or with the number that huma
// appends to a duplicate.
func TestDocumentNamesAreForClients(t *testing.T) {
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
