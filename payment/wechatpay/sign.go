package wechatpay

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"stampede/payment/internal/rsakey"
)

// Headers of WeChat Pay's replies and callbacks, the last one of requests too.
const (
	HeaderTimestamp = "Wechatpay-Timestamp"
	HeaderNonce     = "Wechatpay-Nonce"
	HeaderSignature = "Wechatpay-Signature"
	HeaderSerial    = "Wechatpay-Serial"
)

// Scheme begins the Authorization of a request.
const Scheme = "WECHATPAY2-SHA256-RSA2048"

// maxAge is how far a message's time may be from ours, as WeChat Pay recommends.
const maxAge = 5 * time.Minute

// Sign signs lines, each ended by a line feed.
func Sign(key *rsa.PrivateKey, lines ...string) (string, error) { return rsakey.Sign(key, text(lines)) }

// Verify checks what Sign has signed.
func Verify(key *rsa.PublicKey, signature string, lines ...string) error {
	return rsakey.Verify(key, signature, text(lines))
}

func text(lines []string) []byte { return []byte(strings.Join(append(lines, ""), "\n")) }

// verify returns nil if WeChat Pay signed body within maxAge of now.
func (c *Client) verify(h http.Header, body []byte) error {
	sent, err := strconv.ParseInt(h.Get(HeaderTimestamp), 10, 64)
	if err != nil {
		return fmt.Errorf("wechatpay: %s: %w", HeaderTimestamp, err)
	}
	if age := c.now().Sub(time.Unix(sent, 0)); age.Abs() > maxAge {
		return fmt.Errorf("wechatpay: the message is %s old", age.Round(time.Second))
	}
	key, ok := c.peers.key(h.Get(HeaderSerial))
	if !ok {
		return fmt.Errorf("wechatpay: signed by the key %.64q, which --wechat-pay-peers does not name", h.Get(HeaderSerial))
	}
	return Verify(key, h.Get(HeaderSignature), h.Get(HeaderTimestamp), h.Get(HeaderNonce), string(body))
}

// authorize signs a request. It names the public key by which WeChat Pay is to sign the reply: without one, a merchant
// who has platform certificates too gets replies by those.
func (c *Client) authorize(h http.Header, method, path string, body []byte) error {
	nonce, at := rand.Text(), strconv.FormatInt(c.now().Unix(), 10)
	signature, err := Sign(c.cfg.Key, method, path, at, nonce, string(body))
	h.Set("Authorization", fmt.Sprintf(`%s mchid=%q,nonce_str=%q,timestamp=%q,serial_no=%q,signature=%q`,
		Scheme, c.cfg.Merchant, nonce, at, c.cfg.Serial, signature))
	if c.peers.named != "" {
		h.Set(HeaderSerial, c.peers.named)
	}
	return err
}

// Resource is the encrypted part of a callback.
type Resource struct {
	Algorithm      string `json:"algorithm"`
	Ciphertext     string `json:"ciphertext"`
	Nonce          string `json:"nonce"`
	AssociatedData string `json:"associated_data"`
	OriginalType   string `json:"original_type"`
}

// algorithm is the only one of API v3.
const algorithm = "AEAD_AES_256_GCM"

// Seal encrypts a resource.
func Seal(key []byte, originalType string, text []byte) (Resource, error) {
	gcm, err := aead(key)
	if err != nil {
		return Resource{}, err
	}
	r := Resource{Algorithm: algorithm, Nonce: rand.Text()[:gcm.NonceSize()], AssociatedData: originalType, OriginalType: originalType}
	r.Ciphertext = base64.StdEncoding.EncodeToString(gcm.Seal(nil, []byte(r.Nonce), text, []byte(r.AssociatedData)))
	return r, nil
}

// open decrypts a resource.
func (r Resource) open(key []byte) ([]byte, error) {
	gcm, err := aead(key)
	if err != nil {
		return nil, err
	}
	raw, err := base64.StdEncoding.DecodeString(r.Ciphertext)
	if err != nil {
		return nil, fmt.Errorf("wechatpay: ciphertext: %w", err)
	}
	if r.Algorithm != algorithm || len(r.Nonce) != gcm.NonceSize() {
		return nil, errors.New("wechatpay: the resource is not " + algorithm)
	}
	return gcm.Open(nil, []byte(r.Nonce), raw, []byte(r.AssociatedData))
}

func aead(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("wechatpay: APIv3 key: %w", err)
	}
	return cipher.NewGCM(block)
}
