package signature

import (
	"net/http"
	"testing"
	"time"

	"stampede/platform/workshop/require"
)

// TestSignatureIsTheOneReceiversKnow: their verifiers are written after the description, in other languages.
func TestSignatureIsTheOneReceiversKnow(t *testing.T) {
	t.Parallel()
	const body = `{"id":"17-1","alarm":{"code":"dead-letter","subject":"inventory-release-closed"}}`
	h, now := http.Header{}, time.Unix(1_760_000_000, 0)
	Stampede.Sign(h, []byte("0123456789abcdef0123456789abcdef"), now, []byte(body))
	require.Equal(t, "headers", h, http.Header{
		"Stampede-Timestamp": {"1760000000"}, "Stampede-Signature": {"b37fc3061df2fb0c0b73714c764f1042da3020a2101e2c74eb97748c9d36a4ca"},
	})
}
