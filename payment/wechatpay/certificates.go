package wechatpay

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	certificatesPath = "/v3/certificates"
	// renewEvery is how often platform certificates are fetched; WeChat Pay names the next
	// one at least a day before it signs with it. renewAgain is the pause after a failure.
	renewEvery, renewAgain = 12 * time.Hour, 10 * time.Minute
	// publicKeyPrefix begins the names of public keys, which do not rotate.
	publicKeyPrefix = "PUB_KEY_ID_"
)

// Certificates are the platform certificates that are valid, or will be soon.
type Certificates struct {
	Data []Certificate `json:"data"`
}

// Certificate is one of them, encrypted like the resource of a callback.
type Certificate struct {
	Serial    string   `json:"serial_no"`
	Encrypted Resource `json:"encrypt_certificate"`
}

// peers are the keys of WeChat Pay that are believed.
type peers struct {
	mu     sync.RWMutex
	keys   map[string]*rsa.PublicKey
	rotate bool // some are platform certificates
	// named is the public key that requests name, of several the latest: in an id the merchant number is followed by
	// the date. "" without one.
	named string

	renewing sync.Mutex
	due      time.Time // guarded by renewing
}

func newPeers(configured map[string]*rsa.PublicKey) *peers {
	p := &peers{keys: maps.Clone(configured)}
	for id := range configured {
		if strings.HasPrefix(id, publicKeyPrefix) {
			p.named = max(p.named, id)
		} else {
			p.rotate = true
		}
	}
	return p
}

func (p *peers) key(id string) (*rsa.PublicKey, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	key, ok := p.keys[id]
	return key, ok
}

// renew adds the platform certificates that WeChat Pay names, if the shop was given one
// and it is time. The first call after it waits for that, others go on. A failure leaves
// the present keys, and is tried again later.
func (c *Client) renew(ctx context.Context) {
	p := c.peers
	if !p.rotate || !p.renewing.TryLock() {
		return
	}
	defer p.renewing.Unlock()
	if c.now().Before(p.due) {
		return
	}
	p.due = c.now().Add(renewAgain)
	var list Certificates
	// The reply is signed by a key that is believed already.
	if c.call(ctx, http.MethodGet, certificatesPath, nil, &list) != nil {
		return
	}
	found := make(map[string]*rsa.PublicKey, len(list.Data))
	for _, one := range list.Data {
		key, err := one.open(c.cfg.APIKey, c.now())
		if err != nil {
			return
		}
		found[one.Serial] = key
	}
	p.mu.Lock()
	maps.Copy(p.keys, found)
	p.mu.Unlock()
	p.due = c.now().Add(renewEvery)
}

// open decrypts a certificate.
func (one Certificate) open(apiKey []byte, now time.Time) (*rsa.PublicKey, error) {
	text, err := one.Encrypted.open(apiKey)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("wechatpay: a certificate that is not in PEM form")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := cert.PublicKey.(*rsa.PublicKey)
	if !ok || !strings.EqualFold(fmt.Sprintf("%X", cert.SerialNumber), strings.TrimLeft(one.Serial, "0")) || now.After(cert.NotAfter) {
		return nil, errors.New("wechatpay: the certificate is not the one that its serial number names")
	}
	return key, nil
}
