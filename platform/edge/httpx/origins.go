package httpx

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-chi/cors"

	"stampede/platform/edge/idempotency"
)

// exactOrigin matches what browsers send as an origin, a name in Punycode included.
// There are no patterns: a page of every name that matches one could act with its
// visitors' tokens.
var exactOrigin = regexp.MustCompile(`^https?://[a-z0-9.-]+(:[1-9][0-9]*)?$`)

// checkOrigin refuses a setting that is no origin of a page. http:// is for pages on this machine.
func checkOrigin(flag, origin string) error {
	u, err := url.Parse(origin)
	switch {
	case err != nil || !exactOrigin.MatchString(origin):
		return fmt.Errorf("--%s must be like https://shop.example.com, in lower case and without a path or *, not %q", flag, origin)
	case u.Scheme == "http" && !Loopback(u.Hostname()):
		return fmt.Errorf("--%s must begin with https://, http:// is allowed on this machine only, not %q", flag, origin)
	case u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80":
		return fmt.Errorf("--%s must leave the usual port out, as browsers do, not %q", flag, origin)
	}
	return nil
}

// originOf is a base URL as browsers send it as an origin: in lower case and without the usual port.
func originOf(base string) string {
	scheme, host, _ := strings.Cut(strings.ToLower(base), "://")
	return scheme + "://" + strings.TrimSuffix(host, map[string]string{"https": ":443", "http": ":80"}[scheme])
}

// preflightFor is how long a browser may keep the answer to a preflight, in seconds:
// Chromium's limit. A shopper's page then asks once before a sale, not in its first second.
const preflightFor = 7200

// crossOrigin lets pages of other origins call the API, which next serves. Credentials
// stay off: the pages send tokens, and cookies of theirs would be a way to act unasked.
func crossOrigin(origins []string, next http.Handler) http.Handler {
	shared := cors.Handler(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete},
		AllowedHeaders: []string{"Authorization", "Content-Type", "Human-Check", "Idempotency-Key", "If-None-Match", "Last-Event-ID", "QR-Secret", "X-Request-Id"},
		ExposedHeaders: []string{"Allow", "Content-Disposition", "ETag", idempotency.Replayed, "RateLimit", "RateLimit-Policy", "Retry-After", "X-Request-Id"},
		MaxAge:         preflightFor,
	})(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") {
			shared.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
