package sms

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"stampede/platform/edge/httpx"
)

// Settings configure how SMS are sent.
type Settings struct {
	SMSGatewayURL    string   `name:"sms-gateway-url" default:"" env:"STAMPEDE_SMS_GATEWAY_URL" help:"URL of the gateway that sends SMS; each message is posted to it with a signature, https:// (http:// on this machine only). Empty: codes cannot be sent, or with --sms-provider, its public address." secret:""`
	SMSGatewaySecret string   `name:"sms-gateway-secret" default:"" env:"STAMPEDE_SMS_GATEWAY_SECRET" help:"Secret that signs these messages, at least 32 bytes; the gateway verifies them with it. With --sms-provider, the secret of its API key." secret:""`
	SMSProvider      string   `name:"sms-provider" default:"gateway" enum:"gateway,tencent,aliyun" env:"STAMPEDE_SMS_PROVIDER" help:"Who sends SMS: gateway, which is one of your own, tencent (Tencent Cloud) or aliyun." rare:""`
	SMSKeyID         string   `name:"sms-key-id" default:"" env:"STAMPEDE_SMS_KEY_ID" help:"Id of the API key of --sms-provider: SecretId or AccessKeyId." rare:""`
	SMSAppID         string   `name:"sms-app-id" default:"" env:"STAMPEDE_SMS_APP_ID" help:"Tencent Cloud's SdkAppId." rare:""`
	SMSTemplates     []string `name:"sms-templates" default:"" env:"STAMPEDE_SMS_TEMPLATES" help:"Ids that --sms-provider gave our texts: code-login=SMS_123456,code-register=SMS_123457 and so on. The handbook lists the texts; one in English has the key code-login.en." rare:""`
	SMSCountries     []string `name:"sms-countries" default:"+86" env:"STAMPEDE_SMS_COUNTRIES" help:"Calling prefixes of the phones that SMS are sent to, comma-separated, e.g. +86,+852. Other numbers are refused, to prevent toll fraud (SMS pumping). * alone: every country." rare:""`
	SMSSignature     string   `name:"sms-signature" default:"" env:"STAMPEDE_SMS_SIGNATURE" help:"What each SMS begins with, up to 16 characters, as registered with the carriers. Empty: the shop's name." rare:""`
	SandboxSMS       bool     `name:"sandbox-sms" env:"STAMPEDE_SANDBOX_SMS" help:"Send SMS to a page of this server, /sandbox/sms, instead of to phones. Never use it on a real shop: everyone can read the codes there, except those of staff." group:"Practice:" practice:""`
}

// maxSignature is the longest signature that China's carriers accept between the
// brackets 【】.
const maxSignature = 16

// Check returns an error for each wrong setting.
func (s Settings) Check() error {
	var wrong []error
	if _, err := ParseReach(s.SMSCountries); err != nil {
		wrong = append(wrong, fmt.Errorf("--sms-countries %w", err))
	}
	if n := utf8.RuneCountInString(s.SMSSignature); n > maxSignature {
		wrong = append(wrong, fmt.Errorf("--sms-signature must have up to %d characters, not %d", maxSignature, n))
	}
	if s.provided() {
		wrong = append(wrong, s.checkProvider()...)
	} else {
		wrong = append(wrong, s.checkGateway())
	}
	return errors.Join(wrong...)
}

// Sends reports whether there is anything that takes SMS.
func (s Settings) Sends() bool { return s.SandboxSMS || s.SMSGatewayURL != "" || s.provided() }

// The providers that send only approved texts.
const (
	Tencent = "tencent"
	Aliyun  = "aliyun"
)

func (s Settings) provided() bool { return s.SMSProvider == Tencent || s.SMSProvider == Aliyun }

// Provider returns how the provider of valid settings is reached.
func (s Settings) Provider() ProviderConfig {
	calls := DefaultGatewayConfig().Config
	calls.Peer, calls.Attempts = "sms-"+s.SMSProvider, 1 // a second attempt might send a second SMS
	ids, _ := parseTemplates(s.SMSTemplates)
	return ProviderConfig{
		URL: s.SMSGatewayURL, KeyID: s.SMSKeyID, Secret: s.SMSGatewaySecret, AppID: s.SMSAppID,
		Signature: s.SMSSignature, Templates: ids, Config: calls,
	}
}

// CheckShop refuses a shop whose SMS would begin with a name that is too long.
func (s Settings) CheckShop(name string) error {
	if n := utf8.RuneCountInString(name); s.SMSSignature == "" && n > maxSignature {
		return fmt.Errorf("the shop's name has %d characters, and an SMS begins with at most %d: give a shorter name with --sms-signature", n, maxSignature)
	}
	return nil
}

// checkProvider returns an error for each wrong setting of a provider.
func (s Settings) checkProvider() (wrong []error) {
	if s.SandboxSMS {
		wrong = append(wrong, errors.New("--sandbox-sms and --sms-provider exclude each other: codes go to one of them"))
	}
	if s.SMSKeyID == "" || s.SMSGatewaySecret == "" {
		wrong = append(wrong, fmt.Errorf("--sms-provider=%s needs its API key: --sms-key-id and --sms-gateway-secret", s.SMSProvider))
	}
	if (s.SMSProvider == Tencent) != (s.SMSAppID != "") {
		wrong = append(wrong, errors.New("--sms-app-id and --sms-provider=tencent belong together: it is Tencent Cloud's SdkAppId"))
	}
	if s.SMSGatewayURL != "" && !httpx.Private(s.SMSGatewayURL) {
		wrong = append(wrong, errPrivate)
	}
	if _, err := parseTemplates(s.SMSTemplates); err != nil {
		wrong = append(wrong, fmt.Errorf("--sms-templates %w", err))
	}
	return wrong
}

var errPrivate = errors.New("--sms-gateway-url must begin with https://, or http:// and a loopback address")

func (s Settings) checkGateway() error {
	for flag, given := range map[string]bool{"key-id": s.SMSKeyID != "", "app-id": s.SMSAppID != "", "templates": len(s.SMSTemplates) > 0} {
		if given {
			return fmt.Errorf("--sms-%s is a provider's: give --sms-provider=tencent or aliyun as well, or leave it out", flag)
		}
	}
	switch {
	case (s.SMSGatewayURL == "") != (s.SMSGatewaySecret == ""):
		return errors.New("--sms-gateway-url and --sms-gateway-secret belong together: give both or neither")
	case s.SMSGatewayURL == "":
		return nil
	case s.SandboxSMS:
		return errors.New("--sandbox-sms and --sms-gateway-url exclude each other: codes go to one of them")
	case !httpx.Private(s.SMSGatewayURL):
		return errPrivate
	case len(s.SMSGatewaySecret) < MinSecretBytes:
		return fmt.Errorf("--sms-gateway-secret must have at least %d bytes", MinSecretBytes)
	}
	return nil
}

// Reach is where a shop's customers have their phones: calling prefixes such as +86,
// or Everywhere alone. It protects against toll fraud (SMS pumping): an attacker who
// shares in the revenue of premium-rate numbers requests codes to them, from many
// addresses and for many phones. A Reach without prefixes covers no number.
type Reach []string

// Everywhere covers every number.
const Everywhere = "*"

// prefix is the beginning of a number in E.164: a country, or an area within one
// where several countries share a prefix (+1876 is Jamaica). It has at most seven
// digits, the length of the shortest complete number.
var prefix = regexp.MustCompile(`^\+[1-9][0-9]{0,6}$`)

// ParseReach parses the prefixes of a setting. The error names the first invalid one
// and shows an example.
func ParseReach(prefixes []string) (Reach, error) {
	if slices.Equal(prefixes, Reach{Everywhere}) {
		return Reach{Everywhere}, nil
	}
	if len(prefixes) == 0 {
		return nil, fmt.Errorf("must be calling prefixes such as +86,+852, or %s alone for every country", Everywhere)
	}
	for _, p := range prefixes {
		if !prefix.MatchString(p) {
			return nil, fmt.Errorf("must be calling prefixes such as +86,+852, without blanks, or %s alone for every country; %q is not one", Everywhere, p)
		}
	}
	return slices.Clone(prefixes), nil
}

// Covers reports whether SMS are sent to a phone, which is in E.164.
func (r Reach) Covers(phone string) bool {
	return slices.ContainsFunc(r, func(p string) bool { return p == Everywhere || strings.HasPrefix(phone, p) })
}

// String lists the prefixes for a sentence.
func (r Reach) String() string { return strings.Join(r, ", ") }
