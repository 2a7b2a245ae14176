package standin

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"strings"
	"time"

	"stampede/payment/wechatpay"
)

// certificates lists the company's keys that have certificates: those with a serial number.
func (c counter) certificates(*http.Request, []byte) (any, error) {
	list := wechatpay.Certificates{Data: []wechatpay.Certificate{}}
	for _, k := range c.cfg.Keys {
		serial, ok := new(big.Int).SetString(k.ID, 16)
		if !ok || strings.HasPrefix(k.ID, "PUB_KEY") {
			continue
		}
		now := c.cfg.Now()
		cert := &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0)}
		der, err := x509.CreateCertificate(rand.Reader, cert, cert, &k.Key.PublicKey, k.Key)
		if err != nil {
			return nil, err
		}
		sealed, err := wechatpay.Seal(c.cfg.APIKey, "certificate", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
		if err != nil {
			return nil, err
		}
		list.Data = append(list.Data, wechatpay.Certificate{Serial: k.ID, Encrypted: sealed})
	}
	return list, nil
}
