package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
)

func TestTokenRefusesKeysThatServeRefuses(t *testing.T) {
	t.Parallel()
	const good = "6f1c0a92d8e54b7391aa02c4f1e0d9b8"
	for key, refused := range map[string]bool{
		"short": true, strings.Repeat("a", 64): true, "changeme-changeme-changeme-changeme": true, good: false,
	} {
		var out bytes.Buffer
		c := Token{User: 7, Role: auth.Shopper, Count: 1, Lifetime: time.Hour, SigningKey: key}
		err := c.Run(Streams{Out: &out}, given{"signing-key": true})
		if errors.Is(err, auth.ErrSigningKey) != refused || (out.Len() == 0) != refused {
			t.Errorf("key %q: %v, wrote %q; want refused %v", key, err, out.String(), refused)
		}
	}
}
