// Package cloudtest verifies the signatures of requests as Tencent Cloud and Aliyun do, for
// the stand-ins of their APIs in tests.
package cloudtest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// API is one action of an API, and the one account that may call it. Safe for concurrent
// use.
type API struct {
	Service         string // of Tencent Cloud
	Region          bool   // is required by the action
	Action, Version string
	KeyID, Secret   string
	Now             func() time.Time

	mu     sync.Mutex
	nonces map[string]bool
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// canonical are the lines of the signed headers of a request.
func canonical(r *http.Request, names string) string {
	var lines strings.Builder
	for name := range strings.SplitSeq(names, ";") {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		lines.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	return lines.String()
}

var tencentAuth = regexp.MustCompile(`^TC3-HMAC-SHA256 Credential=(\S+)/(\d{4}-\d\d-\d\d)/(\w+)/tc3_request, SignedHeaders=(\S+), Signature=([0-9a-f]{64})$`)

// Tencent returns the code with which Tencent Cloud refuses the request; empty if it is
// signed well.
func (a *API) Tencent(r *http.Request, body []byte) string {
	signed := tencentAuth.FindStringSubmatch(r.Header.Get("Authorization"))
	stamp, err := strconv.ParseInt(r.Header.Get("X-Tc-Timestamp"), 10, 64)
	switch {
	case signed == nil || err != nil || signed[3] != a.Service || !strings.Contains(signed[4], "content-type;host"):
		return "AuthFailure.InvalidAuthorization"
	case signed[1] != a.KeyID:
		return "AuthFailure.SecretIdNotFound"
	case a.Now().Sub(time.Unix(stamp, 0)).Abs() > 5*time.Minute:
		return "AuthFailure.SignatureExpire"
	case r.Header.Get("X-Tc-Action") != a.Action || r.Header.Get("X-Tc-Version") != a.Version || a.Region && r.Header.Get("X-Tc-Region") == "":
		return "InvalidAction"
	}
	call := r.Method + "\n" + r.URL.Path + "\n" + r.URL.RawQuery + "\n" + canonical(r, signed[4]) + "\n" + signed[4] + "\n" + sum(body)
	text := "TC3-HMAC-SHA256\n" + r.Header.Get("X-Tc-Timestamp") + "\n" + signed[2] + "/" + a.Service + "/tc3_request\n" + sum([]byte(call))
	key := mac(mac(mac([]byte("TC3"+a.Secret), signed[2]), a.Service), "tc3_request")
	if hex.EncodeToString(mac(key, text)) != signed[5] || signed[2] != time.Unix(stamp, 0).UTC().Format(time.DateOnly) {
		return "AuthFailure.SignatureFailure"
	}
	return ""
}

var aliyunAuth = regexp.MustCompile(`^ACS3-HMAC-SHA256 Credential=(\S+?),SignedHeaders=(\S+?),Signature=([0-9a-f]{64})$`)

// Aliyun returns the status and the code with which Aliyun refuses the request; an empty
// code if it is signed well.
func (a *API) Aliyun(r *http.Request, body []byte) (status int, code string) {
	h, nonce := r.Header, r.Header.Get("X-Acs-Signature-Nonce")
	signed := aliyunAuth.FindStringSubmatch(h.Get("Authorization"))
	at, err := time.Parse("2006-01-02T15:04:05Z", h.Get("X-Acs-Date"))
	if signed == nil || err != nil || h.Get("X-Acs-Action") != a.Action || h.Get("X-Acs-Version") != a.Version || nonce == "" {
		return http.StatusBadRequest, "MissingParameter"
	}
	musts := []string{"host", "x-acs-action", "x-acs-content-sha256", "x-acs-date", "x-acs-signature-nonce", "x-acs-version"}
	if len(body) > 0 {
		musts = append(musts, "content-type")
	}
	for _, must := range musts {
		if !slices.Contains(strings.Split(signed[2], ";"), must) {
			return http.StatusBadRequest, "IncompleteSignature"
		}
	}
	q := r.URL.Query()
	pairs := slices.Sorted(maps.Keys(q))
	for i, k := range pairs {
		pairs[i] = escape(k) + "=" + escape(q.Get(k))
	}
	call := r.Method + "\n" + r.URL.Path + "\n" + strings.Join(pairs, "&") + "\n" + canonical(r, signed[2]) + "\n" + signed[2] + "\n" + sum(body)
	a.mu.Lock()
	defer a.mu.Unlock()
	used := a.nonces[nonce]
	if a.nonces == nil {
		a.nonces = map[string]bool{}
	}
	a.nonces[nonce] = true
	switch {
	case signed[1] != a.KeyID:
		return http.StatusNotFound, "InvalidAccessKeyId.NotFound"
	case a.Now().Sub(at).Abs() > 15*time.Minute:
		return http.StatusBadRequest, "InvalidTimeStamp.Expired"
	case used:
		return http.StatusBadRequest, "SignatureNonceUsed"
	case hex.EncodeToString(mac([]byte(a.Secret), "ACS3-HMAC-SHA256\n"+sum([]byte(call)))) != signed[3] || h.Get("X-Acs-Content-Sha256") != sum(body):
		return http.StatusBadRequest, "SignatureDoesNotMatch"
	}
	return http.StatusOK, ""
}

// escape is RFC 3986's, which knows no plus for a space.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
