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
