package httpx

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"
)

// headAsGet serves HEAD wherever GET is served (RFC 9110, 9.1): load balancers,
// monitors and link checkers use it. net/http omits the body.
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

// headers wraps the writer when only the header is wanted. A stream has sent it with
// its first flush, and its handler's context is then canceled: otherwise it would
// run for as long as the client keeps the connection for other requests.
type headers struct {
	http.ResponseWriter
	enough context.CancelFunc
}

// Flush sends the header.
func (h headers) Flush() {
	_ = http.NewResponseController(h.ResponseWriter).Flush() // it fails only if the client has left
	h.enough()
}

// Unwrap supports http.ResponseController.
func (h headers) Unwrap() http.ResponseWriter { return h.ResponseWriter }
