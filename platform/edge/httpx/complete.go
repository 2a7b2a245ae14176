package httpx

import (
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/edge/idempotency"
)

// The header fields of answers that belong to no operation in particular.
const (
	retryAfter      = "Retry-After"
	rateLimitField  = "RateLimit"
	rateLimitPolicy = "RateLimit-Policy"
)

// answerFields describes them.
var answerFields = map[string]*huma.Header{
	retryAfter: {Description: "Seconds after which to ask again", Schema: &huma.Schema{Type: huma.TypeInteger, Examples: []any{2}}},
	rateLimitField: {
		Description: "The limit that is closest to refusing: its name, how many requests are left (r), and seconds until all are (t). " +
			"Successes have it where x-rate-limit has a limit of the scope shop; what each instance counts is named only by its refusals",
		Schema: &huma.Schema{Type: huma.TypeString, Examples: []any{`"rush-path";r=4;t=12`}},
	},
	rateLimitPolicy: {
		Description: "Each limit that counted the request: its name, its number of requests (q), and in how many seconds (w)",
		Schema:      &huma.Schema{Type: huma.TypeString, Examples: []any{`"rush-path";q=5;w=60`}},
	},
	idempotency.Replayed: {
		Description: "This is the answer to the first request with this Idempotency-Key, and nothing was done now; missing from a first answer",
		Schema:      &huma.Schema{Type: huma.TypeString, Enum: []any{"true"}},
	},
}

// mayHave documents header fields of an answer.
func mayHave(answer *huma.Response, fields ...string) {
	if answer.Headers == nil {
		answer.Headers = map[string]*huma.Header{}
	}
	for _, name := range fields {
		answer.Headers[name] = &huma.Header{Ref: "#/components/headers/" + name}
	}
}

// complete adds to every operation of the document what its route does not say itself:
// its limits, the header fields of its answers, and examples of its bodies.
func (rt *Router) complete() {
	doc := rt.API.Huma.OpenAPI()
	doc.Components.Headers = answerFields
	examples := newExamples(doc.Components.Schemas)
	for path, item := range doc.Paths {
		for method, op := range map[string]*huma.Operation{
			http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
		} {
			if op == nil {
				continue
			}
			if op.Extensions == nil {
				op.Extensions = map[string]any{}
			}
			limits := rt.limitsOf(method, path)
			op.Extensions[limitsExtension] = limits
			if op.RequestBody != nil {
				examples.add(op.RequestBody.Content, false)
			}
			for status, answer := range op.Responses {
				success := strings.HasPrefix(status, "2")
				if success {
					examples.add(answer.Content, true)
				}
				if slices.Contains([]string{"425", "429", "503"}, status) { // with a time of the moment
					mayHave(answer, retryAfter)
				}
				if status == "429" && !rt.isDirect(method, path) || success && slices.ContainsFunc(limits, func(l rateLimit) bool { return l.Scope == "shop" }) {
					mayHave(answer, rateLimitField, rateLimitPolicy)
				}
				if success && slices.ContainsFunc(op.Parameters, func(p *huma.Param) bool { return p.Name == "Idempotency-Key" }) {
					mayHave(answer, idempotency.Replayed)
				}
			}
		}
	}
}
