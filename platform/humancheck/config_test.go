package humancheck

import (
	"strings"
	"testing"
	"time"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	site := SiteVerifyConfig{URL: "https://verify.example/siteverify", SiteKey: "k", Secret: "s"}
	for name, c := range map[string]struct {
		change func(*Config)
		want   string // the flag that is named; "" is valid
	}{
		"defaults":             {change: func(*Config) {}},
		"easiest":              {change: func(c *Config) { c.Difficulty = 8 }},
		"too easy":             {change: func(c *Config) { c.Difficulty = 7 }, want: "--human-check-difficulty"},
		"hardest":              {change: func(c *Config) { c.Difficulty = 26 }},
		"too hard":             {change: func(c *Config) { c.Difficulty = 27 }, want: "--human-check-difficulty"},
		"short":                {change: func(c *Config) { c.Lifetime = time.Second }, want: "--human-check-lifetime"},
		"long":                 {change: func(c *Config) { c.Lifetime = time.Hour }, want: "--human-check-lifetime"},
		"exact":                {change: func(c *Config) { c.Tolerance = 0 }, want: "--slide-tolerance"},
		"no pictures":          {change: func(c *Config) { c.Pictures = 0 }, want: "--slide-pictures"},
		"negative":             {change: func(c *Config) { c.PerMinute = -1 }, want: "--challenges-per-minute"},
		"unknown kind":         {change: func(c *Config) { c.Public = "magic" }, want: "--auth-human-check"},
		"verifier of nobody":   {change: func(c *Config) { c.Public = Verifier }, want: "--auth-human-check"},
		"open when down":       {change: func(c *Config) { c.Down = "open" }, want: "--verifier-down"},
		"verifier":             {change: func(c *Config) { c.SiteVerify, c.Hosts, c.Public = site, []string{testHost}, Verifier }},
		"verifier of any page": {change: func(c *Config) { c.SiteVerify = site }, want: "--verifier-hosts"},
		"verifier in clear":    {change: func(c *Config) { c.SiteVerify, c.SiteVerify.URL = site, "http://verify.example/" }, want: "--verifier-url"},
		"verifier in a path":   {change: func(c *Config) { c.SiteVerify, c.SiteVerify.URL = site, "/siteverify" }, want: "--verifier-url"},
		"verifier, half":       {change: func(c *Config) { c.SiteVerify, c.SiteVerify.Secret = site, "" }, want: "--verifier-secret"},
	} {
		cfg := DefaultConfig()
		c.change(&cfg)
		err := cfg.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := New(DefaultConfig(), Deps{}); err == nil {
		t.Error("a service without anything")
	}
}
