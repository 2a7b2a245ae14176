package config_test

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"stampede/platform/config"
)

// printed is what config prints of settings, whether or not serve would take them.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	type anyServer config.Server // without Validate
	type anyStores config.Stores
	var cli struct {
		Server anyServer `embed:""`
		Stores anyStores `embed:""`
	}
	p, err := kong.New(&cli)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := p.Parse(args)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := config.Print(&out, ctx.Flags()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPrintHidesSecrets(t *testing.T) {
	t.Parallel()
	const secret = "planted-secret"
	for _, c := range []struct{ arg, want string }{
		{"--signing-key=" + secret + "-16", "(set, 17 bytes)"},
		{"--alarm-webhook-secret=" + secret, "(set, 14 bytes)"},
		{"--database-url=postgres://user:" + secret + "@db.example/shop?password=" + secret, "postgres://db.example/shop\n"},
		{"--database-url=postgres://user:" + secret + "/" + secret + "@db.example/shop", "postgres://…\n"}, // should have been escaped
		{"--database-url=postgres://user:" + secret + "?" + secret + "@db.example/shop", "postgres://…\n"},
		{"--database-url=host=db.example password=" + secret, "(set, 39 bytes)"},
		{"--redis-url=redis://:" + secret + "@cache.example:6379/0", "redis://cache.example:6379/0\n"},
		{"--redis-url=redis://:" + secret + "@" + secret + "@cache.example:6379/0", "redis://cache.example:6379/0\n"},
		{"--redis-url=redis-sentinel://:" + secret + "@s1:26379,s2:26379/0?master=m", "redis-sentinel://s1:26379,s2:26379/0\n"},
		{"--redis-url=redis-sentinel://s1:26379/0?master=m@" + secret, "redis-sentinel://…\n"},
		{"--nats-url=nats://" + secret + "@bus.example:4222", "nats://bus.example:4222\n"},
		{"--nats-url=nats://u:" + secret + "@b1:4222,nats://u:" + secret + "@b2:4222", "nats://b1:4222,nats://b2:4222\n"},
		{"--alarm-webhook-url=https://ops.example/" + secret + "?key=" + secret, "https://ops.example/…\n"},
		// These are no secrets, until somebody puts one into them.
		{"--public-url=https://user:" + secret + "@sale.example", "https://sale.example\n"},
		{"--trace-endpoint=http://collector.example:4318?key=" + secret, "http://collector.example:4318\n"},
	} {
		if out := printed(t, c.arg); strings.Contains(out, secret) || !strings.Contains(out, c.want) {
			t.Errorf("%s: want %q and no secret in\n%s", c.arg, c.want, out)
		}
	}
	if out := printed(t); !strings.Contains(out, "STAMPEDE_SIGNING_KEY") || strings.Contains(out, "[") {
		t.Errorf("without settings:\n%s", out)
	}
}

// TestPrintedListsCanBeGivenAgain: what config shows of a list is what the flag
// and the variable take.
func TestPrintedListsCanBeGivenAgain(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"--sms-countries=+86,+852":                 "+86,+852\n",
		"--trusted-proxies=10.0.0.0/8":             "10.0.0.0/8\n",
		"--origin-patterns=*.example.com,a\\,b.cn": "*.example.com,a\\,b.cn\n",
		"--previous-signing-keys=planted,secret":   "(set, 2 of them)\n",
	} {
		if out := printed(t, arg); !strings.Contains(out, want) {
			t.Errorf("%s: want %q in\n%s", arg, want, out)
		}
	}
}
