package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
)

// TestAttackDangerousSettingsAreRefused: each of these made a shop that anyone
// could buy from, log in to, or claim any address at, without a word.
func TestAttackDangerousSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"--sandbox-bank --listen=:8080", "--sandbox-bank is for drills"},
		{"--sandbox-bank --listen=192.0.2.7:8080", "--sandbox-bank is for drills"},
		{"--sandbox-bank --public-url=https://sale.example.com", "--sandbox-bank is for drills"},
		{"--sandbox-sms --public-url=https://sale.example.com", "--sandbox-sms is for drills"},
		{"--sandbox-sms --listen=[::]:8080", "--sandbox-sms is for drills"},
		{"--trusted-proxies=0.0.0.0/0", "--trusted-proxies must be the networks of your proxies"},
		{"--trusted-proxies=10.0.0.0/8,::/0", "--trusted-proxies must be the networks of your proxies"},
		{"--trusted-proxies=0.0.0.0/1,128.0.0.0/1", "--trusted-proxies must be the networks of your proxies"},
	} {
		if said := refused(t, strings.Split(c.args, " ")...); !strings.Contains(said, c.want) {
			t.Errorf("%s: %q, want %q", c.args, said, c.want)
		}
	}
	for _, args := range []string{
		"--sandbox-bank --sandbox-sms", "--sandbox-bank --sandbox-sms --listen=localhost:8080 --public-url=http://127.0.0.1:8080",
		"--sandbox-bank --sandbox-sms --listen=:8080 --practice", "--trusted-proxies=10.0.0.0/8,fc00::/7",
	} {
		if said := refused(t, strings.Split(args, " ")...); said != "" {
			t.Errorf("%s: %s", args, said)
		}
	}
}

// TestAttackBehindHTTPS plays against a server behind a proxy with TLS.
func TestAttackBehindHTTPS(t *testing.T) {
	t.Parallel()
	in := serveInstance(t, pgtest.DatabaseURL(t), pgtest.RedisURL(t), "--public-url=https://sale.example.com", "--practice")

	t.Run("headers", func(t *testing.T) {
		t.Parallel()
		for _, path := range []string{"/", "/docs", "/api/v1/sessions", "/api/v1/nowhere", "/static/style.css"} {
			_, header, _ := exchange(t, http.MethodGet, in.url+path, "", "")
			if got := header.Get("Strict-Transport-Security"); !strings.HasPrefix(got, "max-age=") {
				t.Errorf("%s: HSTS is %q", path, got)
			}
			if got := header.Get("Cross-Origin-Opener-Policy"); got != "same-origin" {
				t.Errorf("%s: COOP is %q", path, got)
			}
			policy := header.Get("Content-Security-Policy")
			for _, want := range []string{"default-src 'self'", "form-action 'self'", "base-uri 'none'", "object-src 'none'", "frame-ancestors 'none'"} {
				if !strings.Contains(policy, want) {
					t.Errorf("%s: the policy %q lacks %s", path, policy, want)
				}
			}
		}
	})
	t.Run("tokens in the browser's storage", func(t *testing.T) {
		t.Parallel()
		if _, _, script := exchange(t, http.MethodGet, in.url+"/docs/start.js", "", ""); strings.Contains(string(script), "persistAuthorization") {
			t.Errorf("the page of the documentation keeps operators' tokens: %s", script)
		}
	})
	t.Run("a sandbox in the open is an alarm", func(t *testing.T) {
		t.Parallel()
		const code = "dangerous-setting"
		operator := mint(t, 1, auth.Operator)
		pgtest.Eventually(t, 30*time.Second, func() bool {
			_, _, raw := exchange(t, http.MethodGet, in.url+"/api/v1/admin/alarms?code="+code, operator, "")
			return strings.Contains(string(raw), "--sandbox-bank")
		}, "the alarm about the sandbox bank")
	})
}

// TestREADMENamesTheAttacks: each test in the table of attacks exists, and both
// languages name the same.
func TestREADMENamesTheAttacks(t *testing.T) {
	t.Parallel()
	source := ""
	err := filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			source += packagingRead(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var named [2][]string
	for i, name := range []string{"README.md", ".github/README.zh-CN.md"} {
		_, table, _ := strings.Cut(packagingRead(t, name), []string{"## What it withstands", "## 抵御哪些攻击"}[i])
		table, _, _ = strings.Cut(table, "\n## ")
		for _, row := range strings.Split(table, "\n| ")[1:] {
			cells := strings.Split(row, " | ")
			named[i] = append(named[i], regexp.MustCompile("`([A-Z][A-Za-z]+)`").FindAllString(cells[len(cells)-1], -1)...)
		}
	}
	if len(named[0]) == 0 || !slices.Equal(named[0], named[1]) {
		t.Errorf("README.md names %q, README.zh-CN.md %q", named[0], named[1])
	}
	for _, name := range named[0] {
		if !strings.Contains(source, "\nfunc TestAttack"+strings.Trim(name, "`")+"(") {
			t.Errorf("there is no TestAttack%s", strings.Trim(name, "`"))
		}
	}
}
