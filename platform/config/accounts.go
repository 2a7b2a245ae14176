package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"time"
	"unicode/utf8"

	"stampede/platform/sms"
)

// Accounts are the settings of accounts and of how their codes are sent.
type Accounts struct {
	ConnsAccount    int32         `default:"5" env:"STAMPEDE_CONNS_ACCOUNT" help:"Postgres connections for accounts and logins, one of them for what was revoked." group:"conns"`
	AccessLifetime  time.Duration `default:"15m" env:"STAMPEDE_ACCESS_LIFETIME" help:"How long an access token is valid, as a duration between 1m and 24h."`
	RefreshLifetime time.Duration `default:"720h" env:"STAMPEDE_REFRESH_LIFETIME" help:"How long a login lasts without being used, as a duration of at most 4320h; 720h are 30 days."`
	FirstAdminPhone string        `default:"" env:"STAMPEDE_FIRST_ADMIN_PHONE" help:"Phone that becomes an admin at its next login while the shop has none, e.g. +8613800138000." secret:""`

	PasswordMemoryKiB uint32 `name:"password-memory-kib" default:"19456" env:"STAMPEDE_PASSWORD_MEMORY_KIB" help:"Memory of one password hash (argon2id), in KiB. Passwords are hashed again at login when this changes."`
	PasswordPasses    uint32 `default:"2" env:"STAMPEDE_PASSWORD_PASSES" help:"Passes of a password hash over its memory."`
	PasswordThreads   uint8  `default:"1" env:"STAMPEDE_PASSWORD_THREADS" help:"Threads of a password hash."`
	PasswordParallel  int    `default:"0" env:"STAMPEDE_PASSWORD_PARALLEL" help:"Password hashes at once, each with its memory; whoever comes when they are busy waits a moment, then is refused. 0: one for each core."`

	LoginPerPhone      int `default:"5" env:"STAMPEDE_LOGIN_PER_PHONE" help:"Logins by password that one phone may try in a minute; 0: no limit."`
	LoginPerAddress    int `default:"30" env:"STAMPEDE_LOGIN_PER_ADDRESS" help:"Logins that one address may try in a minute; 0: no limit."`
	SMSPerPhoneHour    int `name:"sms-per-phone-hour" default:"5" env:"STAMPEDE_SMS_PER_PHONE_HOUR" help:"SMS codes for one phone in an hour, with a minute between two; 0: no limit." group:"sms"`
	SMSPerPhoneDay     int `name:"sms-per-phone-day" default:"10" env:"STAMPEDE_SMS_PER_PHONE_DAY" help:"SMS codes for one phone in a day; 0: no limit." group:"sms"`
	SMSPerAddress      int `name:"sms-per-address" default:"20" env:"STAMPEDE_SMS_PER_ADDRESS" help:"SMS codes asked for from one address in an hour; 0: no limit." group:"sms"`
	RegisterPerAddress int `default:"5" env:"STAMPEDE_REGISTER_PER_ADDRESS" help:"Registrations from one address in an hour; 0: no limit."`

	AuthHumanCheck            string `default:"none" enum:"none,pow,slide,verifier" env:"STAMPEDE_AUTH_HUMAN_CHECK" help:"Human check for logins, registrations and SMS codes above the thresholds that follow: none, pow, slide or verifier."`
	CheckAfterFailures        int    `default:"3" env:"STAMPEDE_CHECK_AFTER_FAILURES" help:"Failed logins of one phone in 15 minutes after which the human check is asked for."`
	CheckAfterAddress         int    `default:"10" env:"STAMPEDE_CHECK_AFTER_ADDRESS" help:"Failed logins from one address in 15 minutes after which the human check is asked for."`
	CheckAfterCodes           int    `default:"2" env:"STAMPEDE_CHECK_AFTER_CODES" help:"SMS codes for one phone in an hour after which the human check is asked for."`
	CheckAfterAddressRequests int    `default:"3" env:"STAMPEDE_CHECK_AFTER_ADDRESS_REQUESTS" help:"SMS codes or registrations from one address in an hour after which the human check is asked for."`

	SMSGatewayURL    string   `name:"sms-gateway-url" default:"" env:"STAMPEDE_SMS_GATEWAY_URL" help:"Gateway that sends SMS: told of each by a signed POST, https:// (http:// on this machine only). Empty: codes cannot be sent." secret:"" group:"sms"`
	SMSGatewaySecret string   `name:"sms-gateway-secret" default:"" env:"STAMPEDE_SMS_GATEWAY_SECRET" help:"Secret that signs these messages, at least 32 bytes; the gateway verifies with it." secret:"" group:"sms"`
	SMSCountries     []string `name:"sms-countries" default:"+86" env:"STAMPEDE_SMS_COUNTRIES" help:"Calling prefixes of the phones that SMS are sent to, comma-separated, e.g. +86,+852: codes for dear numbers abroad are how strangers earn at a shop's cost. * alone: every country." group:"sms"`
	SMSSignature     string   `name:"sms-signature" default:"Stampede" env:"STAMPEDE_SMS_SIGNATURE" help:"The shop's name at the head of each SMS, 1 to 16 characters." group:"sms"`
	SandboxSMS       bool     `name:"sandbox-sms" env:"STAMPEDE_SANDBOX_SMS" help:"Send SMS to a page of this server, /sandbox/sms, instead of to phones. Never on a real shop: everybody can read the codes there." group:"practice"`

	WechatAppID     string `default:"" env:"STAMPEDE_WECHAT_APP_ID" help:"WeChat app that shoppers log in with. Empty: no WeChat login." group:"wechat"`
	WechatAppSecret string `default:"" env:"STAMPEDE_WECHAT_APP_SECRET" help:"That app's secret." secret:"" group:"wechat"`
	WechatKind      string `default:"official" enum:"official,mini" env:"STAMPEDE_WECHAT_KIND" help:"What the app is: official (account, web page) or mini (program)." group:"wechat"`
	WechatURL       string `default:"https://api.weixin.qq.com" env:"STAMPEDE_WECHAT_URL" help:"Where WeChat's API is reached, without a path." group:"wechat"`
}

// minGatewaySecret is the output of SHA-256, below which guessing is cheaper.
const minGatewaySecret = 32

// phoneSetting is deliberately wide: what a number is, the accounts say.
var phoneSetting = regexp.MustCompile(`^\+?[0-9][0-9 ()-]{6,24}$`)

// validate returns a sentence about each setting that is wrong.
func (a Accounts) validate() error {
	return errors.Join(a.validateLifetimes(), a.validatePasswords(), a.validateRates(), a.validateGateway(), a.validateWechat())
}

func (a Accounts) validateLifetimes() error {
	var wrong []error
	if a.ConnsAccount < 2 || a.ConnsAccount > 1000 {
		wrong = append(wrong, fmt.Errorf("--conns-account must be between 2 and 1000 connections, not %d", a.ConnsAccount))
	}
	if a.AccessLifetime < time.Minute || a.AccessLifetime > 24*time.Hour {
		wrong = append(wrong, fmt.Errorf("--access-lifetime must be between 1m and 24h, not %s", a.AccessLifetime))
	}
	if a.RefreshLifetime < a.AccessLifetime || a.RefreshLifetime > 180*24*time.Hour {
		wrong = append(wrong, fmt.Errorf("--refresh-lifetime must be between --access-lifetime and 4320h, not %s", a.RefreshLifetime))
	}
	if a.FirstAdminPhone != "" && !phoneSetting.MatchString(a.FirstAdminPhone) {
		wrong = append(wrong, errors.New("--first-admin-phone must be a mobile number such as +8613800138000"))
	}
	return errors.Join(wrong...)
}

func (a Accounts) validatePasswords() error {
	if a.PasswordMemoryKiB < 8*uint32(max(a.PasswordThreads, 1)) || a.PasswordMemoryKiB > 1<<20 || a.PasswordPasses < 1 || a.PasswordPasses > 100 ||
		a.PasswordThreads < 1 || a.PasswordThreads > 64 || a.PasswordParallel < 0 || a.PasswordParallel > 1000 {
		return errors.New("--password-memory-kib must be between 8 for each thread and 1048576, --password-passes between 1 and 100, " +
			"--password-threads between 1 and 64 and --password-parallel between 0 and 1000")
	}
	return nil
}

func (a Accounts) validateRates() error {
	var wrong []error
	for _, n := range []struct {
		flag string
		got  int
	}{
		{"login-per-phone", a.LoginPerPhone},
		{"login-per-address", a.LoginPerAddress},
		{"sms-per-phone-hour", a.SMSPerPhoneHour},
		{"sms-per-phone-day", a.SMSPerPhoneDay},
		{"sms-per-address", a.SMSPerAddress},
		{"register-per-address", a.RegisterPerAddress},
		{"check-after-failures", a.CheckAfterFailures},
		{"check-after-address", a.CheckAfterAddress},
		{"check-after-codes", a.CheckAfterCodes},
		{"check-after-address-requests", a.CheckAfterAddressRequests},
	} {
		if n.got < 0 || n.got > 1_000_000 {
			wrong = append(wrong, fmt.Errorf("--%s must be between 0 and 1000000, not %d", n.flag, n.got))
		}
	}
	return errors.Join(wrong...)
}

func (a Accounts) validateGateway() error {
	var wrong []error
	if _, err := sms.ParseReach(a.SMSCountries); err != nil {
		wrong = append(wrong, fmt.Errorf("--sms-countries %w", err))
	}
	if n := utf8.RuneCountInString(a.SMSSignature); n < 1 || n > 16 {
		wrong = append(wrong, fmt.Errorf("--sms-signature must have 1 to 16 characters, not %d", n))
	}
	return errors.Join(append(wrong, a.validateGatewayURL())...)
}

func (a Accounts) validateGatewayURL() error {
	if (a.SMSGatewayURL == "") != (a.SMSGatewaySecret == "") {
		return errors.New("--sms-gateway-url and --sms-gateway-secret belong together: give both or neither")
	}
	if a.SMSGatewayURL == "" {
		return nil
	}
	if a.SandboxSMS {
		return errors.New("--sandbox-sms and --sms-gateway-url exclude each other: codes go to one of them")
	}
	if !secureURL(a.SMSGatewayURL) {
		return errors.New("--sms-gateway-url must begin with https://, or http:// and a loopback address")
	}
	if len(a.SMSGatewaySecret) < minGatewaySecret {
		return fmt.Errorf("--sms-gateway-secret must have at least %d bytes", minGatewaySecret)
	}
	return nil
}

func (a Accounts) validateWechat() error {
	if (a.WechatAppID == "") != (a.WechatAppSecret == "") {
		return errors.New("--wechat-app-id and --wechat-app-secret belong together: give both or neither")
	}
	if a.WechatAppID != "" && !secureURL(a.WechatURL) {
		return errors.New("--wechat-url must begin with https://, or http:// and a loopback address: the app's secret goes there")
	}
	return nil
}

// secureURL reports whether what is sent to an address stays between the two:
// TLS, or this machine.
func secureURL(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	if u.Scheme == "https" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}
