package config_test

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"stampede/platform/base/config"
	"stampede/platform/workshop/require"
)

func TestPrintHidesSecrets(t *testing.T) {
	t.Parallel()
	const secret = "planted-secret"
	for _, c := range []struct{ arg, want string }{
		{"--secret=" + secret + "-16", "(set, 17 bytes)"},
		{"--secret=postgres://user:" + secret + "@db.example/shop?password=" + secret, "postgres://db.example/shop "},
		{"--secret=postgres://user:" + secret + "/" + secret + "@db.example/shop", "postgres://… "}, // should have been escaped
		{"--secret=postgres://user:" + secret + "?" + secret + "@db.example/shop", "postgres://… "},
		{"--secret=host=db.example password=" + secret, "(set, 39 bytes)"},
		{"--secret=redis://:" + secret + "@cache.example:6379/0", "redis://cache.example:6379/0 "},
		{"--secret=redis://:" + secret + "@" + secret + "@cache.example:6379/0", "redis://cache.example:6379/0 "},
		{"--secret=redis-sentinel://:" + secret + "@s1:26379,s2:26379/0?master=m", "redis-sentinel://s1:26379,s2:26379/0 "},
		{"--secret=redis-sentinel://s1:26379/0?master=m@" + secret, "redis-sentinel://… "},
		{"--secret=nats://" + secret + "@bus.example:4222", "nats://bus.example:4222 "},
		{"--secret=nats://u:" + secret + "@b1:4222,nats://u:" + secret + "@b2:4222", "nats://b1:4222,nats://b2:4222 "},
		{"--secret=https://ops.example/" + secret + "?key=" + secret, "https://ops.example/… "},
		{"--secrets=planted,secret", "(set, 2 of them)"},
		// These are not secrets until an operator puts one into them.
		{"--open=https://user:" + secret + "@sale.example", "https://sale.example "},
		{"--open=http://collector.example:4318?key=" + secret, "http://collector.example:4318 "},
		// A list is shown in the form that the flag and the variable take.
		{"--list=+86,+852", "+86,+852 "},
		{"--list=*.example.com,a\\,b.cn", "*.example.com,a\\,b.cn "},
	} {
		var cli struct {
			Serve struct {
				Secret  string   `env:"SHOP_SECRET" secret:""`
				Secrets []string `env:"SHOP_SECRETS" secret:""`
				Open    string   `env:"SHOP_URL"`
				List    []string `env:"SHOP_LIST"`
			} `cmd:""`
		}
		file := new(config.File)
		parser, err := kong.New(&cli, config.Options(file))
		require.NoError(t, err)
		command, err := parser.Parse([]string{"serve", c.arg})
		require.NoError(t, err)
		var out strings.Builder
		require.NoError(t, config.Print(&out, command, file))
		if strings.Contains(out.String(), secret) || !strings.Contains(out.String(), c.want) || strings.Contains(out.String(), "[") {
			t.Errorf("%s: want %q and no secret in\n%s", c.arg, c.want, out.String())
		}
	}
	require.Equal(t, "the place of what is no URL", config.Places("host=db.example password="+secret), "…")
}
