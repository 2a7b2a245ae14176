package config_test

import (
	"strings"
	"testing"
)

func TestWrongAccountSettingsAreNamed(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef0123456789abcdef"
	for _, c := range []struct{ args, want string }{
		{"--conns-account=1", "--conns-account must be between 2 and 1000"},
		{"--access-lifetime=30s", "--access-lifetime must be between"},
		{"--access-lifetime=25h", "--access-lifetime must be between"},
		{"--refresh-lifetime=1m", "--refresh-lifetime must be between"},
		{"--refresh-lifetime=5000h", "--refresh-lifetime must be between"},
		{"--first-admin-phone=me", "--first-admin-phone must be a mobile number"},
		{"--password-memory-kib=4", "--password-memory-kib must be between"},
		{"--password-passes=0", "--password-passes between"},
		{"--login-per-phone=-1", "--login-per-phone must be between 0"},
		{"--sms-countries=", "--sms-countries must be calling prefixes"},
		{"--sms-countries=+86,852", "--sms-countries must be calling prefixes such as +86,+852, without blanks, or * alone for every country; \"852\" is none"},
		{"--sms-countries=*,+86", "* alone"},
		{"--sms-signature=", "--sms-signature must have 1 to 16 characters"},
		{"--sms-gateway-url=https://sms.example.com", "give both or neither"},
		{"--sms-gateway-url=http://sms.example.com --sms-gateway-secret=" + secret, "--sms-gateway-url must begin with https://"},
		{"--sms-gateway-url=https://sms.example.com --sms-gateway-secret=short", "--sms-gateway-secret must have at least 32 bytes"},
		{"--sandbox-sms --sms-gateway-url=https://sms.example.com --sms-gateway-secret=" + secret, "exclude each other"},
		{"--wechat-app-id=wx1", "give both or neither"},
		{"--wechat-app-id=wx1 --wechat-app-secret=s --wechat-url=http://api.example.com", "--wechat-url must begin with https://"},
	} {
		if _, _, err := parse(t, strings.Split(c.args, " ")...); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
	for _, args := range []string{
		"--first-admin-phone=+8613800138000", "--sandbox-sms", "--sms-gateway-url=http://127.0.0.1:9000/send --sms-gateway-secret=" + secret,
		"--wechat-app-id=wx1 --wechat-app-secret=s --wechat-kind=mini", "--login-per-address=0",
		"--sms-countries=+86,+852,+853,+886", "--sms-countries=*",
	} {
		if _, _, err := parse(t, strings.Split(args, " ")...); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
}
