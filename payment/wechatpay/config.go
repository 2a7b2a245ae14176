package wechatpay

import (
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/payment/internal/rsakey"
)

// Settings are the shop's keys at WeChat Pay. Without a merchant number the provider is
// absent.
type Settings struct {
	WechatPayMerchant string   `env:"STAMPEDE_WECHAT_PAY_MERCHANT" help:"The shop's merchant number at WeChat Pay (mchid); --help-all lists what goes with it. Empty: no WeChat Pay."`
	WechatPayApp      string   `env:"STAMPEDE_WECHAT_PAY_APP" help:"The app id that the merchant number is bound to; for payments inside WeChat the same as --wechat-app-id." rare:""`
	WechatPaySerial   string   `env:"STAMPEDE_WECHAT_PAY_SERIAL" help:"The serial number of the merchant's API certificate." rare:""`
	WechatPayKey      string   `env:"STAMPEDE_WECHAT_PAY_KEY" help:"The file of the merchant's private key (apiclient_key.pem)." rare:""`
	WechatPayAPIKey   string   `env:"STAMPEDE_WECHAT_PAY_API_KEY" help:"The APIv3 key, 32 characters." rare:"" secret:""`
	WechatPayPeers    []string `env:"STAMPEDE_WECHAT_PAY_PEERS" help:"The keys of WeChat Pay, comma-separated: PUB_KEY_ID_…=pub_key.pem, or SERIAL=platform_certificate.pem; several during a rotation." rare:""`
	WechatPayURL      string   `default:"https://api.mch.weixin.qq.com" env:"STAMPEDE_WECHAT_PAY_URL" help:"Where WeChat Pay is reached; https://api2.mch.weixin.qq.com is its other site." rare:""`
}

// On reports whether the shop takes WeChat Pay.
func (s Settings) On() bool { return s.WechatPayMerchant != "" }

// Check returns an error that names the wrong setting.
func (s Settings) Check() error {
	if !s.On() {
		return nil
	}
	_, err := s.Config()
	return err
}

// Config reads the keys that the settings name.
func (s Settings) Config() (Config, error) {
	c := Config{Merchant: s.WechatPayMerchant, App: s.WechatPayApp, Serial: s.WechatPaySerial, APIKey: []byte(s.WechatPayAPIKey), URL: s.WechatPayURL}
	needed := []string{s.WechatPayApp, s.WechatPaySerial, s.WechatPayKey, s.WechatPayAPIKey, s.WechatPayURL}
	if slices.Contains(needed, "") || len(s.WechatPayPeers) == 0 {
		return c, errors.New("--wechat-pay-merchant needs --wechat-pay-app, --wechat-pay-serial, --wechat-pay-key, --wechat-pay-api-key, --wechat-pay-peers " +
			"and --wechat-pay-url beside it")
	}
	if len(c.APIKey) != apiKeyBytes {
		return c, fmt.Errorf("--wechat-pay-api-key has %d characters, an APIv3 key has %d", len(c.APIKey), apiKeyBytes)
	}
	var err error
	if c.Key, err = rsakey.Private(s.WechatPayKey); err != nil {
		return c, fmt.Errorf("--wechat-pay-key: %w", err)
	}
	c.Peers = make(map[string]*rsa.PublicKey, len(s.WechatPayPeers))
	for _, peer := range s.WechatPayPeers {
		id, file, _ := strings.Cut(strings.TrimSpace(peer), "=")
		if c.Peers[id], err = rsakey.Public(file); err != nil {
			return c, fmt.Errorf("--wechat-pay-peers: %q is not ID=FILE with a public key or certificate: %w", peer, err)
		}
	}
	return c, nil
}

// apiKeyBytes is the length of an AES-256 key.
const apiKeyBytes = 32

// Config is the configuration of a Client.
type Config struct {
	Merchant string
	App      string
	Serial   string          // of the merchant's certificate
	Key      *rsa.PrivateKey // the merchant's
	APIKey   []byte          // decrypts callbacks
	// Peers are the keys of WeChat Pay by the name that Wechatpay-Serial gives.
	Peers   map[string]*rsa.PublicKey
	URL     string // without a trailing slash
	Backoff time.Duration
	Metrics prometheus.Registerer
}
