package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"hash"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// usualHeader is the first part of every token that Mint makes, with its dot:
// {"alg":"HS256","typ":"JWT"}.
const usualHeader = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."

// seal is the scratch space for checking a signature.
type seal struct {
	mac  hash.Hash
	sum  [sha256.Size]byte
	sent [sha256.Size + 2]byte // base64 decodes in steps of three bytes
	text []byte                // the signed text, then the claims
}

var errSignature = errors.New("the signature is not ours")

// read checks a token and reads its claims. A token under the usual header needs
// no header to be parsed: its signature is checked first, with a MAC that is used
// again, then the claims are read and held against the same rules. That is half
// the work, and every request but the rush pays for it. Whatever else looks like
// a token goes through the library from the start.
func (t *Tokens) read(token string, c *claims) error {
	rest, usual := strings.CutPrefix(token, usualHeader)
	payload, signature, parts := strings.Cut(rest, ".")
	if !usual || !parts || base64.RawURLEncoding.DecodedLen(len(signature)) != sha256.Size {
		_, err := t.parser.ParseWithClaims(token, c, func(*jwt.Token) (any, error) { return t.key, nil })
		return err
	}
	s := t.macs.Get().(*seal) //nolint:errcheck // the pool holds nothing else
	defer t.macs.Put(s)
	s.text = append(s.text[:0], signature...)
	if n, err := base64.RawURLEncoding.Decode(s.sent[:], s.text); err != nil || n != sha256.Size {
		return errSignature
	}
	s.text = append(s.text[:0], token[:len(usualHeader)+len(payload)]...)
	s.mac.Reset()
	_, _ = s.mac.Write(s.text) // a hash never fails
	if !hmac.Equal(s.mac.Sum(s.sum[:0]), s.sent[:sha256.Size]) {
		return errSignature
	}
	document, err := base64.RawURLEncoding.AppendDecode(s.text[:0:0], s.text[len(usualHeader):])
	if err != nil {
		return err
	}
	if err := json.Unmarshal(document, c); err != nil {
		return err
	}
	return t.validator.Validate(c)
}
