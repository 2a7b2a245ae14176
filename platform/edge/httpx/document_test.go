package httpx_test

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"stampede/platform/workshop/require"
)

type operation struct {
	ID string `json:"operationId"`
}

// document returns the committed document's operations by path and method, and its schemas.
func document(t *testing.T) (paths map[string]map[string]operation, schemas map[string]any) {
	t.Helper()
	raw, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	var doc struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]any }
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
		}
	}
}
