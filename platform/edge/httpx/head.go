package httpx

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"
)

// headAsGet answers HEAD wherever GET is answered (RFC 9110, 9.1): load balancers,
// monitors and link checkers ask so. net/http leaves the body out.
func headAsGet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		ctx, enough := context.WithCancel(r.Context())
		defer enough()
		chi.RouteContext(ctx).RouteMethod = http.MethodGet
		next.ServeHTTP(headers{w, enough}, r.WithContext(ctx))
	})
}

// headers takes an answer of which only the header is wanted. A stream has said
// that when it flushes for the first time, and its handler is told to end: it would
// go on for as long as the client keeps the connection for other requests.
type headers struct {
	http.ResponseWriter
	enough context.CancelFunc
}

// Flush sends the header.
func (h headers) Flush() {
	_ = http.NewResponseController(h.ResponseWriter).Flush() // nobody listens any more if it fails
	h.enough()
}

// Unwrap is for http.ResponseController.
func (h headers) Unwrap() http.ResponseWriter { return h.ResponseWriter }
