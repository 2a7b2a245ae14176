package httpx

import (
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// schemaName is a type's name in the document. A generated client has the types of
// all packages side by side, so a type is named for its role in the shop. Endings
// that distinguish it from a table's row are dropped, a page is named for its rows,
// and an unnamed struct takes its field's tag nameHint. huma refuses two types with
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
