package main

import (
	"net/http"
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
