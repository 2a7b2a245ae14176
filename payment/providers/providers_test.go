package providers

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/payment/alipay"
	"stampede/payment/sandbox"
	"stampede/payment/stripe"
	"stampede/payment/wechatpay"
	"stampede/platform/base/clock"
	"stampede/platform/base/config"
	"stampede/platform/workshop/require"
)

// keys writes a key pair as the companies' tools do, and returns the files.
func keys(t *testing.T) (private, public, bare string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	pkix, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	require.NoError(t, err)
	write := func(name string, text []byte) string {
		file := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(file, text, 0o600))
		return file
	}
	return write("apiclient_key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})),
		write("pub_key.pem", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pkix})),
		write("alipay.txt", []byte(base64.StdEncoding.EncodeToString(pkcs8)+"\n"))
}

func TestProviders(t *testing.T) {
	t.Parallel()
	private, public, bare := keys(t)
	weChat := wechatpay.Settings{
		WechatPayMerchant: "1900000109", WechatPayApp: "wx1", WechatPaySerial: "5157", WechatPayKey: private,
		WechatPayAPIKey: strings.Repeat("k", 32), WechatPayPeers: []string{"PUB_KEY_ID_1=" + public}, WechatPayURL: "https://api.mch.weixin.qq.com",
	}
	aliPay := alipay.Settings{AlipayApp: "2021", AlipaySeller: "2088", AlipayKey: bare, AlipayPeer: public, AlipayURL: "https://openapi.alipay.com/gateway.do"}
	cards := stripe.Settings{StripeKey: "rk_live_1", StripeAccount: "acct_1", StripeSecrets: []string{"whsec_1", " whsec_2"}, StripeURL: "https://api.stripe.com"}
	on := sandbox.Settings{SandboxBank: true}
	for name, tt := range map[string]struct {
		set  Settings
		want []string
	}{
		"nothing":           {Settings{}, nil},
		"the sandbox":       {Settings{Sandbox: on}, []string{"sandbox"}},
		"all companies":     {Settings{WeChat: weChat, Alipay: aliPay, Stripe: cards}, []string{"wechat", "alipay", "stripe"}},
		"practice with all": {Settings{Sandbox: on, PayWith: []string{"alipay", "stripe", "wechat"}}, []string{"alipay", "stripe", "wechat", "sandbox"}},
	} {
		require.NoError(t, config.Check(&tt.set))
		ways, err := Open(tt.set, Deps{
			Secret: []byte(strings.Repeat("s", 32)), PublicURL: "http://127.0.0.1:1", LocalURL: "http://127.0.0.1:1", DB: new(pgxpool.Pool),
			Clock: clock.System{}, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		})
		require.NoError(t, err)
		var got []string
		for _, p := range ways.Providers {
			got = append(got, p.Profile().Name)
		}
		require.Equal(t, name, got, tt.want)
	}
	wrong := func(change func(*Settings)) Settings {
		s := Settings{WeChat: weChat, Alipay: aliPay, Stripe: cards}
		change(&s)
		return s
	}
	for flag, set := range map[string]Settings{
		"--wechat-pay-key":     wrong(func(s *Settings) { s.WeChat.WechatPayKey = public }),
		"--wechat-pay-peers":   wrong(func(s *Settings) { s.WeChat.WechatPayPeers = []string{public} }),
		"--wechat-pay-api-key": wrong(func(s *Settings) { s.WeChat.WechatPayAPIKey = "short" }),
		"--wechat-pay-serial":  wrong(func(s *Settings) { s.WeChat.WechatPaySerial = "" }),
		"--alipay-key":         wrong(func(s *Settings) { s.Alipay.AlipayKey = "/nowhere" }),
		"--alipay-peer":        wrong(func(s *Settings) { s.Alipay.AlipayPeer = private }),
		"--alipay-seller":      wrong(func(s *Settings) { s.Alipay.AlipaySeller = "" }),
		"--wechat-pay-app":     {WeChat: wechatpay.Settings{WechatPayMerchant: "19"}},
		"--alipay-app needs":   {Alipay: alipay.Settings{AlipayApp: "2021"}},
		"--stripe-key":         wrong(func(s *Settings) { s.Stripe.StripeKey = "pk_live_1" }),
		"--stripe-account":     wrong(func(s *Settings) { s.Stripe.StripeAccount = "" }),
		"--stripe-secrets":     wrong(func(s *Settings) { s.Stripe.StripeSecrets = []string{"whsec_1", "secret"} }),
		"real account":         wrong(func(s *Settings) { s.PayWith = []string{"alipay"} }),
		"twice":                {PayWith: []string{"wechat", "wechat"}},
	} {
		if err := config.Check(&set); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
