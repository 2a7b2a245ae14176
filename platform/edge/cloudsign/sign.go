// Package cloudsign signs requests to the APIs of Tencent Cloud (TC3-HMAC-SHA256) and
// Aliyun (ACS3-HMAC-SHA256). A signature is of one moment: sign each attempt anew.
package cloudsign

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"stampede/platform/edge/auth"
)

// Key is what an account signs with: its public id, and its secret.
type Key struct{ ID, Secret string }

// Call is a POST to the path "/" of an API.
type Call struct {
	Host, Action, Version string
	Service               string // as Tencent Cloud names it, such as "sms"
	Region                string // of Tencent Cloud; empty where the API has none
	Query                 string // encoded as RFC 3986 wants it, sorted by name
	Type                  string // the body's media type; empty without a body
	Body                  []byte
}

// Tencent sets the headers of a call of Tencent Cloud, whose Type is required.
func Tencent(h http.Header, k Key, c Call, now time.Time) {
	now = now.UTC()
	stamp, day := strconv.FormatInt(now.Unix(), 10), now.Format(time.DateOnly)
	h.Set("X-TC-Action", c.Action)
	h.Set("X-TC-Version", c.Version)
	h.Set("X-TC-Timestamp", stamp)
	if c.Region != "" {
		h.Set("X-TC-Region", c.Region)
	}
	call := "POST\n/\n" + c.Query + "\ncontent-type:" + c.Type + "\nhost:" + c.Host + "\n\ncontent-type;host\n" + digest(c.Body)
	scope := day + "/" + c.Service + "/tc3_request"
	text := "TC3-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + digest([]byte(call))
	key := []byte("TC3" + k.Secret)
	for _, part := range []string{day, c.Service, "tc3_request"} {
		key = auth.MAC(key, []byte(part))
	}
	h.Set("Authorization", "TC3-HMAC-SHA256 Credential="+k.ID+"/"+scope+", SignedHeaders=content-type;host, Signature="+
		hex.EncodeToString(auth.MAC(key, []byte(text))))
}

// Aliyun sets the headers of a call of Aliyun.
func Aliyun(h http.Header, k Key, c Call, now time.Time) { aliyun(h, k, c, now, rand.Text()) }

func aliyun(h http.Header, k Key, c Call, now time.Time, nonce string) {
	body := digest(c.Body)
	// In the order of their names, as they are signed.
	fields := [][2]string{
		{"host", c.Host},
		{"x-acs-action", c.Action},
		{"x-acs-content-sha256", body},
		{"x-acs-date", now.UTC().Format(time.RFC3339)},
		{"x-acs-signature-nonce", nonce},
		{"x-acs-version", c.Version},
	}
	if c.Type != "" {
		fields = append([][2]string{{"content-type", c.Type}}, fields...)
	}
	var lines, names strings.Builder
	for i, f := range fields {
		lines.WriteString(f[0] + ":" + f[1] + "\n")
		if i > 0 {
			names.WriteByte(';')
		}
		names.WriteString(f[0])
		if f[0] != "host" {
			h.Set(f[0], f[1])
		}
	}
	h.Set("Accept", "application/json")
	call := "POST\n/\n" + c.Query + "\n" + lines.String() + "\n" + names.String() + "\n" + body
	text := "ACS3-HMAC-SHA256\n" + digest([]byte(call))
	h.Set("Authorization", "ACS3-HMAC-SHA256 Credential="+k.ID+",SignedHeaders="+names.String()+",Signature="+
		hex.EncodeToString(auth.MAC([]byte(k.Secret), []byte(text))))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
