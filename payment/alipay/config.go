package alipay

import (
	"crypto/rsa"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/payment/internal/rsakey"
)

// Settings are the shop's keys at Alipay. Without an app the provider is absent.
type Settings struct {
	AlipayApp    string `env:"STAMPEDE_ALIPAY_APP" help:"The shop's app id at Alipay; --help-all lists what goes with it. Empty: no Alipay."`
	AlipaySeller string `env:"STAMPEDE_ALIPAY_SELLER" help:"The shop's number at Alipay (PID, 2088…), which callbacks name as the seller." rare:""`
	AlipayKey    string `env:"STAMPEDE_ALIPAY_KEY" help:"The file of the app's private key." rare:""`
	AlipayPeer   string `env:"STAMPEDE_ALIPAY_PEER" help:"The file of Alipay's public key for the app." rare:""`
	AlipayURL    string `default:"https://openapi.alipay.com/gateway.do" env:"STAMPEDE_ALIPAY_URL" help:"Alipay's gateway; its sandbox is https://openapi-sandbox.dl.alipaydev.com/gateway.do." rare:""`
}

// On reports whether the shop takes Alipay.
func (s Settings) On() bool { return s.AlipayApp != "" }

// Check returns an error that names the wrong setting.
func (s Settings) Check() error {
	if !s.On() {
		return nil
	}
	_, err := s.Config()
	return err
}

// Config reads the keys that the settings name.
func (s Settings) Config() (c Config, err error) {
	c = Config{App: s.AlipayApp, Seller: s.AlipaySeller, URL: s.AlipayURL}
	if s.AlipaySeller == "" || s.AlipayKey == "" || s.AlipayPeer == "" || s.AlipayURL == "" {
		return c, errors.New("--alipay-app needs --alipay-seller, --alipay-key, --alipay-peer and --alipay-url beside it")
	}
	if c.Key, err = rsakey.Private(s.AlipayKey); err != nil {
		return c, fmt.Errorf("--alipay-key: %w", err)
	}
	if c.Peer, err = rsakey.Public(s.AlipayPeer); err != nil {
		return c, fmt.Errorf("--alipay-peer: %w", err)
	}
	return c, nil
}

// Config is the configuration of a Client.
type Config struct {
	App     string
	Seller  string
	Key     *rsa.PrivateKey // the app's
	Peer    *rsa.PublicKey  // Alipay's
	URL     string          // the gateway
	Backoff time.Duration
	Metrics prometheus.Registerer
}
