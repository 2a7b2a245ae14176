package cli

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/watch/audit"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestTokenRefusesKeysThatServeRefuses(t *testing.T) {
	t.Parallel()
	for key, refused := range map[string]bool{
		"short": true, strings.Repeat("a", 64): true, "changeme-changeme-changeme-changeme": true, oneKey: false,
	} {
		var out bytes.Buffer
		c := Token{User: 7, Role: auth.Shopper, Count: 1, Lifetime: time.Hour, SigningKey: key}
		err := c.Run(t.Context(), Streams{Out: &out, Err: io.Discard}, given{"signing-key": true})
		if errors.Is(err, auth.ErrSigningKey) != refused || (out.Len() == 0) != refused {
			t.Errorf("key %q: %v, wrote %q; want refused %v", key, err, out.String(), refused)
		}
	}
}

// TestMintingIsRecorded: the audit log has one record of each command, and the tokens say
// what acts for the user. A token of the staff lives for an hour unless the operator
// wants more.
func TestMintingIsRecorded(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	for _, c := range []struct {
		token Token
		want  time.Duration
	}{
		{Token{User: 7, Role: auth.Shopper, Count: 3}, 24 * time.Hour},
		{Token{User: 10, Role: auth.Viewer, Count: 1}, time.Hour},
		{Token{User: 11, Role: auth.Admin, Count: 1, Lifetime: 2 * time.Hour}, 2 * time.Hour},
	} {
		var out, errs bytes.Buffer
		c.token.SigningKey, c.token.DatabaseURL = oneKey, db.Config().ConnString()
		if err := c.token.Run(t.Context(), Streams{Out: &out, Err: &errs}, given{}); err != nil || errs.Len() > 0 {
			t.Fatalf("%s: %v %s", c.token.Role, err, errs.String())
		}
		lines := strings.Fields(out.String())
		for i, line := range lines {
			if p, err := auth.NewTokens([]byte(oneKey), time.Now).Verify(line); err != nil || p.UserID != c.token.User+int64(i) || len(lines) != c.token.Count {
				t.Errorf("token %d of %d names %+v, %v", i, len(lines), p, err)
			}
		}
		var claims struct {
			Iat, Exp int64
			Act      struct{ Sub string }
		}
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(out.String(), ".")[1])
		if err == nil {
			err = json.Unmarshal(payload, &claims)
		}
		if got := time.Duration(claims.Exp-claims.Iat) * time.Second; err != nil || got != c.want {
			t.Errorf("a token of a %s lives for %s, %v; want %s", c.token.Role, got, err, c.want)
		}
		require.Equal(t, fmt.Sprintf("what acts in a token of a %s", c.token.Role), claims.Act.Sub, auth.ByCLI)
		list, err := audit.List(t.Context(), db, audit.Filter{Action: "token.mint", Subject: fmt.Sprintf("user %d", c.token.User)})
		if err != nil || len(list) != 1 || !strings.Contains(string(list[0].Detail), fmt.Sprintf(`"count": %d`, c.token.Count)) {
			t.Errorf("records of a token of a %s: %+v, %v; want one", c.token.Role, list, err)
		}
	}
	var out, errs bytes.Buffer
	away := Token{User: 1, Role: auth.Operator, Count: 1, SigningKey: oneKey, DatabaseURL: "postgres://127.0.0.1:1/none"}
	if err := away.Run(t.Context(), Streams{Out: &out, Err: &errs}, given{}); err != nil || out.Len() == 0 || !strings.Contains(errs.String(), "The audit log does not record this token") {
		t.Errorf("without the database: %v, wrote %q and %q", err, out.String(), errs.String())
	}
}
