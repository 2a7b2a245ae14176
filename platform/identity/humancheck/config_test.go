package humancheck

import (
	"strings"
	"testing"

	"stampede/platform/base/config"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	site := config.Defaults[Settings]()
	site.VerifierURL, site.VerifierSiteKey, site.VerifierSecret = "https://verify.example/siteverify", "k", "s"
	cloud := func(kind VerifierKind, parts ...string) Settings {
		set := config.Defaults[Settings]()
		set.VerifierKind = kind
		for i, at := range []*string{&set.VerifierSiteKey, &set.VerifierSecret, &set.VerifierAccessKey, &set.VerifierAccessSecret, &set.VerifierPrefix}[:len(parts)] {
			*at = parts[i]
		}
		return set
	}
	for name, c := range map[string]struct {
		set    Settings
		change func(*Settings)
		want   string // the flag named in the error; "" is valid
	}{
		"defaults":             {config.Defaults[Settings](), func(*Settings) {}, ""},
		"verifier not set":     {config.Defaults[Settings](), func(s *Settings) { s.AuthHumanCheck = Verifier }, "--auth-human-check"},
		"verifier":             {site, func(s *Settings) { s.VerifierHosts, s.AuthHumanCheck = []string{testHost}, Verifier }, ""},
		"verifier of any page": {site, func(*Settings) {}, "--verifier-hosts"},
		"verifier in clear":    {site, func(s *Settings) { s.VerifierURL = "http://verify.example/" }, "--verifier-url"},
		"verifier in a path":   {site, func(s *Settings) { s.VerifierURL = "/siteverify" }, "--verifier-url"},
		"geetest":              {cloud(GeeTest, "id", "key"), func(s *Settings) { s.AuthHumanCheck = Verifier }, ""},
		"geetest, half":        {cloud(GeeTest, "id"), func(*Settings) {}, "--verifier-secret (captcha_key)"},
		"geetest in clear":     {cloud(GeeTest, "id", "key"), func(s *Settings) { s.VerifierURL = "http://gcaptcha4.geetest.com/validate" }, "--verifier-url"},
		"geetest with a key":   {cloud(GeeTest, "id", "key", "a"), func(*Settings) {}, "--verifier-access-key"},
		"tencent":              {cloud(Tencent, "199999164", "s", "a", "b"), func(*Settings) {}, ""},
		"tencent's app":        {cloud(Tencent, "app", "s", "a", "b"), func(*Settings) {}, "CaptchaAppId, a number"},
		"tencent, half":        {cloud(Tencent, "199999164", "s", "a"), func(*Settings) {}, "--verifier-access-secret"},
		"aliyun":               {cloud(Aliyun, "scene", "", "a", "b", "p"), func(*Settings) {}, ""},
		"aliyun's prefix":      {cloud(Aliyun, "scene", "", "a", "b"), func(*Settings) {}, "--verifier-prefix"},
		"aliyun with a secret": {cloud(Aliyun, "scene", "s", "a", "b", "p"), func(*Settings) {}, "--verifier-secret is not Aliyun's"},
		"prefix without it":    {cloud(Tencent, "199999164", "s", "a", "b", "p"), func(*Settings) {}, "--verifier-prefix is for"},
		"key of siteverify":    {site, func(s *Settings) { s.VerifierAccessKey = "a" }, "--verifier-access-key"},
		"verifier, half":       {site, func(s *Settings) { s.VerifierSecret = "" }, "--verifier-secret"},
	} {
		c.change(&c.set)
		err := c.set.Check()
		if err == nil {
			err = c.set.CheckPages("")
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if c := NewConfig(site, "https://Sale.example.com:8443/"); len(c.Hosts) != 1 || c.Hosts[0] != "sale.example.com" {
		t.Errorf("the pages of a public URL: %v", c.Hosts)
	}
}
