package httpx

// NoStore keeps an answer out of every cache: tokens, personal data, and states
// that an operator must not see as they were a minute ago.
const NoStore = "no-store"

// Output is an answer that no cache keeps; Answer makes one. A handler whose
// answer has other headers, or a body without a type of its own, which the API's
// document would have no name for, declares its own.
type Output[B any] struct {
	CacheControl string `header:"Cache-Control"`
	Body         B
}

// Answer wraps a body for a handler's return.
func Answer[B any](body B) *Output[B] { return &Output[B]{CacheControl: NoStore, Body: body} }
