package httpx

import (
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// refusals documents what a route may answer other than success: the codes it names,
// and those of the checks in front of every handler.
func (api API) refusals(op Op, takesBody, takesKey bool) map[string]*huma.Response {
	codes := map[int][]string{
		http.StatusUnprocessableEntity: {"invalid"}, // at least for an unknown query parameter
		http.StatusInternalServerError: {"internal"},
	}
	add := func(status int, more ...string) {
		for _, code := range more {
			if !slices.Contains(codes[status], code) {
				codes[status] = append(codes[status], code)
			}
		}
	}
	if op.Role != "" {
		add(http.StatusUnauthorized, "no-token", "bad-token")
		add(http.StatusForbidden, "forbidden")
	}
	add(http.StatusTooManyRequests, "rate-limited")
	if takesBody {
		add(http.StatusBadRequest, "bad-request")
		add(http.StatusRequestTimeout, "too-slow")
		add(http.StatusRequestEntityTooLarge, "too-large")
		add(http.StatusUnsupportedMediaType, "unsupported-media-type")
	}
	if takesKey {
		add(http.StatusConflict, "idempotency-in-flight")
		add(http.StatusUnprocessableEntity, "idempotency-mismatch")
	}
	for status, own := range op.Problems {
		add(status, strings.Split(own, ", ")...)
	}
	add(http.StatusServiceUnavailable, "unavailable", "overloaded") // a store is down, or too many requests
	schema := api.Huma.OpenAPI().Components.Schemas.Schema(problemType, true, "Problem")
	responses := make(map[string]*huma.Response, len(codes))
	for status, list := range codes {
		responses[strconv.Itoa(status)] = &huma.Response{
			Description: strings.Join(list, ", "),
			Content:     map[string]*huma.MediaType{ProblemContentType: {Schema: schema}},
		}
	}
	return responses
}

// takesKey reports whether a route's input has an Idempotency-Key.
func takesKey(input reflect.Type) bool {
	return slices.ContainsFunc(reflect.VisibleFields(input), func(f reflect.StructField) bool {
		return f.Tag.Get("header") == "Idempotency-Key"
	})
}
