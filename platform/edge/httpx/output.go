package httpx

// NoStore keeps an answer out of every cache: tokens, personal data, and states of
// which an operator must not see a stale copy.
const NoStore = "no-store"

// Output is an answer that caches must not keep; Answer makes one. A handler whose
// answer has other headers, or a body of an unnamed type, for which the API's
// document would have no name, declares its output type itself.
type Output[B any] struct {
	CacheControl string `header:"Cache-Control"`
	Body         B
}

// Answer wraps a body for a handler's return.
func Answer[B any](body B) *Output[B] { return &Output[B]{CacheControl: NoStore, Body: body} }
