package httpx

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/idempotency"
	"stampede/platform/edge/ratelimit"
)

// refusals is what a route may answer other than success: what it names, and what the
// checks in front of every handler refuse.
func refusals(op Op, input reflect.Type) []*fault.Error {
	// At least an unknown query parameter is invalid.
	all := []*fault.Error{fault.ErrInvalid, fault.ErrInternal, ratelimit.ErrLimited, fault.ErrUnavailable, errOverloaded}
	if op.Role != "" {
		all = append(all, auth.ErrNoToken, auth.ErrBadToken, auth.ErrForbidden)
	}
	if op.Scope != "" {
		all = append(all, auth.ErrBadKey, auth.ErrScope)
	}
	if strings.Contains(op.Path, "{") {
		all = append(all, fault.ErrNotFound)
	}
	_, takesBody := input.FieldByName("Body") // huma looks for these fields
	if takesBody {
		all = append(all, errMediaType)
	}
	if _, takesForm := input.FieldByName("RawBody"); takesBody || takesForm {
		all = append(all, fault.ErrBadRequest, errTooSlow, fault.ErrTooLarge)
	}
	if takesKey(input) {
		all = append(all, idempotency.ErrInFlight, idempotency.ErrMismatch)
	}
	return append(all, op.Refuses...)
}

// takesKey reports whether an input embeds idempotency.Header.
func takesKey(input reflect.Type) bool {
	return slices.ContainsFunc(reflect.VisibleFields(input), func(f reflect.StructField) bool { return f.Tag.Get("header") == "Idempotency-Key" })
}

// Refusals documents refusals by their status, each with its code and title.
func Refusals(api huma.API, all []*fault.Error) map[string]*huma.Response {
	schema := api.OpenAPI().Components.Schemas.Schema(problemType, true, "Problem")
	responses := map[string]*huma.Response{}
	seen := map[string]bool{}
	for _, f := range all {
		if seen[f.Code] {
			continue
		}
		seen[f.Code] = true
		status := strconv.Itoa(statusIn(f))
		described := "- " + f.Code + ": " + f.Title[English]
		have := responses[status]
		if have == nil {
			have = &huma.Response{Description: described, Content: map[string]*huma.MediaType{ProblemContentType: {Schema: schema}}}
			responses[status] = have
		} else {
			have.Description += "\n" + described
		}
		if f.RetryAfter > 0 {
			mayHave(have, retryAfter)
		}
	}
	return responses
}

// statusIn is the status of a refusal: of its kind, unless it exists only in HTTP.
func statusIn(f *fault.Error) int {
	for status, only := range onlyHTTP {
		if only == f {
			return status
		}
	}
	return statusOf[f.Kind]
}
