package httpx

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// schemaName is a type's name in the document. A generated client has the types of all
// packages side by side, so a type is named for what it is in the shop. The endings
// that tell it from the row of a table are left out, a page is named for its rows, and
// a struct without a name takes its field's tag nameHint. huma refuses two types of
// one name at the start.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if row, page := strings.CutPrefix(name, "Page"); page {
		return documented(row) + "Page"
	}
	return documented(name)
}

func documented(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, "View"), "Input")
}
