// Package standin is WeChat Pay for practice and tests: API v3 in front of the sandbox
// bank's books. It checks the merchant's signatures and signs as the company does, with
// keys of its own. A code_url leads to the bank's page instead of the WeChat app.
package standin

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"

	"stampede/payment/internal/rsakey"
	"stampede/payment/sandbox"
	"stampede/payment/wechatpay"
	"stampede/platform/edge/outbound"
)

// Prefix is the path under which the company's API is.
const Prefix = sandbox.Prefix + "/wechatpay"

// Company is the stand-in. Safe for concurrent use.
type Company struct {
	merchant, app, serial string
	shop                  *rsa.PublicKey // the merchant's
	apiKey                []byte
	keys                  []key        // the company's own
	certificate           key          // signs the replies to requests that name no public key
	with                  atomic.Int32 // which of them signs; see Rotate
	now                   func() time.Time
	log                   *slog.Logger
}

// key is a key of the company with the name that Wechatpay-Serial gives.
type key struct {
	id string
	*rsa.PrivateKey
}

var _ sandbox.Dialect = (*Company)(nil)

// Pair makes the keys of a shop and of a company that know each other, for a client at
// url.
func Pair(url string, now func() time.Time, log *slog.Logger) (*Company, wechatpay.Config) {
	shop := rsakey.Generate()
	c := &Company{
		merchant: "1900000109", app: "wx00000000practice", serial: "PRACTICE0001", shop: &shop.PublicKey,
		apiKey: []byte(rand.Text() + rand.Text())[:32], now: now, log: log, // an AES-256 key
		certificate: key{certificateSerial + "9", rsakey.Generate()},
	}
	client := wechatpay.Config{
		Merchant: c.merchant, App: c.app, Serial: c.serial, Key: shop, APIKey: c.apiKey, Peers: make(map[string]*rsa.PublicKey), URL: url + Prefix,
	}
	for _, id := range []string{"PUB_KEY_ID_PRACTICE_0", "PUB_KEY_ID_PRACTICE_1"} {
		own := key{id, rsakey.Generate()}
		c.keys = append(c.keys, own)
		client.Peers[id] = &own.PublicKey
	}
	return c, client
}

// certificateSerial begins the serial numbers of the company's certificates.
const certificateSerial = "5157F09EFDC096DE15EBE81A47057A720000000"

// Certify replaces the company's public keys by platform certificates, and returns the
// configuration of a client that knows the first of them.
func (c *Company) Certify(client wechatpay.Config) wechatpay.Config {
	client.Peers = make(map[string]*rsa.PublicKey)
	for i := range c.keys {
		c.keys[i].id = fmt.Sprintf("%s%d", certificateSerial, i)
	}
	client.Peers[c.keys[0].id] = &c.keys[0].PublicKey
	return client
}

// Rotate signs with the next key from now on.
func (c *Company) Rotate() { c.with.Store((c.with.Load() + 1) % int32(len(c.keys))) } //nolint:gosec // two keys

// Account implements sandbox.Dialect.
func (c *Company) Account() sandbox.Account {
	return sandbox.Account{Merchant: c.merchant, Company: "WeChat Pay"}
}

// Routes implements sandbox.Dialect.
func (c *Company) Routes(mux chi.Router, desk sandbox.Desk) {
	d := counter{c, desk}
	mux.Post(Prefix+"/v3/pay/transactions/{method}", c.signed(d.create))
	mux.Get(Prefix+"/v3/pay/transactions/out-trade-no/{no}", c.signed(d.query))
	mux.Post(Prefix+"/v3/pay/transactions/out-trade-no/{no}/close", c.signed(d.close))
	mux.Post(Prefix+"/v3/refund/domestic/refunds", c.signed(d.refund))
	mux.Get(Prefix+"/v3/bill/tradebill", c.signed(d.bill))
	mux.Get(Prefix+"/v3/certificates", c.signed(d.certificates))
	mux.Get(Prefix+billPath, d.download)
}

// refusal is an answer with an error code of the API.
type refusal struct {
	status int
	wechatpay.Problem
}

func (r *refusal) Error() string { return r.Code + ": " + r.Message }

func refuse(status int, code, message string) error {
	return &refusal{status, wechatpay.Problem{Code: code, Message: message}}
}

// maxBodyBytes bounds a request.
const maxBodyBytes = 16 << 10

// signed turns an operation into an endpoint: the merchant's signature, then the
// company's. A nil answer is 204.
func (c *Company) signed(do func(*http.Request, []byte) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
		if err == nil {
			err = c.authorized(r, body)
		}
		var out any
		if err == nil {
			out, err = do(r, body)
		}
		status := http.StatusOK
		if err != nil {
			no := new(refusal)
			if bank, ok := errors.AsType[*sandbox.RefusalError](err); ok {
				no = &refusal{http.StatusBadRequest, wechatpay.Problem{Code: "INVALID_REQUEST", Message: bank.Message}}
			} else if !errors.As(err, &no) {
				c.log.ErrorContext(r.Context(), "WeChat Pay's stand-in failed", "error", err)
				no = &refusal{http.StatusInternalServerError, wechatpay.Problem{Code: "SYSTEM_ERROR", Message: "try again"}}
			}
			status, out = no.status, no.Problem
		}
		var text []byte
		if out == nil {
			status = http.StatusNoContent
		} else if text, err = json.Marshal(out); err != nil {
			panic("standin: encode: " + err.Error()) // only structs of strings, numbers and times reach this
		}
		c.sign(w.Header(), text, c.replying(r))
		w.WriteHeader(status)
		_, _ = w.Write(text)
	}
}

var authorization = regexp.MustCompile(`^` + wechatpay.Scheme + ` mchid="([^"]*)",nonce_str="([^"]*)",timestamp="(\d+)",serial_no="([^"]*)",signature="([^"]*)"$`)

// authorized checks a request's signature.
func (c *Company) authorized(r *http.Request, body []byte) error {
	m := authorization.FindStringSubmatch(r.Header.Get("Authorization"))
	if len(m) == 0 || m[1] != c.merchant || m[4] != c.serial {
		return refuse(http.StatusUnauthorized, "SIGN_ERROR", "the Authorization names no merchant or certificate here")
	}
	at, err := strconv.ParseInt(m[3], 10, 64)
	if err != nil || c.now().Sub(time.Unix(at, 0)).Abs() > 5*time.Minute {
		return refuse(http.StatusUnauthorized, "SIGN_ERROR", "the timestamp is not of now")
	}
	path := r.URL.RequestURI()[len(Prefix):]
	if err := wechatpay.Verify(c.shop, m[5], r.Method, path, m[3], m[2], string(body)); err != nil {
		return refuse(http.StatusUnauthorized, "SIGN_ERROR", "the signature is wrong")
	}
	return nil
}

// replying is the key that signs the reply to a request: the public key that the request
// names, else a certificate, as at a merchant who has both.
func (c *Company) replying(r *http.Request) key {
	own := c.keys[c.with.Load()]
	if strings.HasPrefix(own.id, certificateSerial) {
		return own
	}
	for _, k := range c.keys {
		if k.id == r.Header.Get(wechatpay.HeaderSerial) {
			return k
		}
	}
	return c.certificate
}

// Head implements sandbox.Dialect.
func (c *Company) Head(h http.Header, body []byte) { c.sign(h, body, c.keys[c.with.Load()]) }

func (c *Company) sign(h http.Header, body []byte, own key) {
	at, nonce := strconv.FormatInt(c.now().Unix(), 10), rand.Text()
	signature, err := wechatpay.Sign(own.PrivateKey, at, nonce, string(body))
	if err != nil {
		panic("standin: sign: " + err.Error()) // the key is ours
	}
	h.Set("Content-Type", "application/json")
	h.Set(wechatpay.HeaderTimestamp, at)
	h.Set(wechatpay.HeaderNonce, nonce)
	h.Set(wechatpay.HeaderSerial, own.id)
	h.Set(wechatpay.HeaderSignature, signature)
}

// Acknowledged implements sandbox.Dialect.
func (c *Company) Acknowledged(r outbound.Reply) bool {
	return r.Status == http.StatusOK || r.Status == http.StatusNoContent
}

// Callback implements sandbox.Dialect.
func (c *Company) Callback(e sandbox.Event) ([]byte, error) {
	if e.Dispute != nil {
		return nil, nil
	}
	event, kind := wechatpay.EventCaptured, "transaction"
	var content any = c.transaction(e.Payment)
	if r := e.Refund; r != nil {
		event, kind = wechatpay.EventRefunded, "refund"
		out := c.refunded(e.Payment, *r)
		out.Status, out.RefundStatus, out.MchID, out.Amount.Currency = "", out.Status, c.merchant, ""
		if out.RefundStatus == wechatpay.RefundAbnormal {
			event = wechatpay.EventRefundAbnormal
		}
		content = out
	}
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	resource, err := wechatpay.Seal(c.apiKey, kind, text)
	if err != nil {
		return nil, err
	}
	return json.Marshal(wechatpay.Notification{ID: rand.Text(), Created: c.now(), EventType: event, Type: "encrypt-resource", Resource: resource})
}

// certificates lists the company's keys that have certificates: those with a serial number.
func (c counter) certificates(*http.Request, []byte) (any, error) {
	list := wechatpay.Certificates{Data: []wechatpay.Certificate{}}
	for _, k := range c.keys {
		serial, ok := new(big.Int).SetString(k.id, 16)
		if !ok || strings.HasPrefix(k.id, "PUB_KEY") {
			continue
		}
		now := c.now()
		cert := &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0)}
		der, err := x509.CreateCertificate(rand.Reader, cert, cert, &k.PublicKey, k.PrivateKey)
		if err != nil {
			return nil, err
		}
		sealed, err := wechatpay.Seal(c.apiKey, "certificate", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
		if err != nil {
			return nil, err
		}
		list.Data = append(list.Data, wechatpay.Certificate{Serial: k.id, Encrypted: sealed})
	}
	return list, nil
}
