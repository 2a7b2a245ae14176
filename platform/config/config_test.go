package config_test

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"stampede/platform/config"
)

// parse returns the settings as a command line would give them.
func parse(t *testing.T, args ...string) (config.Server, []*kong.Flag, error) {
	t.Helper()
	var cli struct {
		config.Server `embed:""`
	}
	p, err := kong.New(&cli)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := p.Parse(args) // kong calls Validate
	if err != nil {
		return config.Server{}, nil, err
	}
	return cli.Server, ctx.Flags(), nil
}

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	s, _, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.BaseURL(); got != "http://127.0.0.1:8080" {
		t.Errorf("BaseURL() = %q", got)
	}
}

func TestEverySettingHasAVariableAndHelp(t *testing.T) {
	t.Parallel()
	_, flags, err := parse(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range flags {
		if f.Name == "help" {
			continue
		}
		if len(f.Envs) != 1 || f.Envs[0] != "STAMPEDE_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")) && !shortened[f.Name] {
			t.Errorf("--%s has the variables %v", f.Name, f.Envs)
		}
		if f.Help == "" {
			t.Errorf("--%s has no help", f.Name)
		}
	}
}

// shortened are the flags whose variable is not the flag's own name.
var shortened = map[string]bool{"origin-patterns": true}

func TestWrongSettingsAreNamedInOneSentence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"--listen=shop", "--listen must be host:port"},
		{"--ops-listen=127.0.0.1:8080", "--listen and --ops-listen must differ"},
		{"--public-url=sale.example.com", "--public-url must be like"},
		{"--time-zone=Beijing", "--time-zone must be an IANA name"},
		{"--alarm-webhook-url=http://example.com/alarms --alarm-webhook-secret=0123456789abcdef0123456789abcdef", "--alarm-webhook-url must begin with https://"},
		{"--alarm-webhook-url=https://example.com/alarms --alarm-webhook-secret=short", "--alarm-webhook-secret must have at least 32 bytes"},
		{"--alarm-webhook-secret=0123456789abcdef0123456789abcdef", "give both or neither"},
		{"--keep-records=24h", "--keep-records must be at least"},
		{"--settle-after=10s", "--settle-after must be between"},
		{"--preheat-lead=0s", "--preheat-lead must be a positive duration"},
		{"--drain-timeout=20s", "--drain-timeout (20s) must be shorter"},
		{"--lane-capacity=0", "--lane-capacity must be at least 1"},
		{"--conns-order=1", "--conns-order must be between 2 and 1000"},
		{"--human-check-difficulty=27", "--human-check-difficulty must be between 8 and 26"},
		{"--slide-tolerance=0", "--slide-tolerance must be between 1 and 20"},
		{"--auth-human-check=verifier", "--auth-human-check is verifier, but there is none"},
		{"--verifier-url=https://example.com/siteverify", "--verifier-url, --verifier-site-key and --verifier-secret belong together"},
		{"--verifier-url=http://example.com/v --verifier-site-key=k --verifier-secret=s --public-url=https://sale.example.com", "--verifier-url must begin with https://"},
		{"--verifier-url=https://example.com/v --verifier-site-key=k --verifier-secret=s", "--verifier-hosts or --public-url must say"},
		{"--verifier-timeout=1h", "--verifier-timeout must be between"},
	} {
		if _, _, err := parse(t, strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
}

func TestWeakKeysAreRefused(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "short", strings.Repeat("a", 64), "changeme-changeme-changeme-changeme", "SECRET-secret-secret-secret-secret"} {
		if err := config.CheckKey(key); err == nil {
			t.Errorf("CheckKey(%q) = nil", key)
		}
	}
	if err := config.CheckKey("6f1c0a92d8e54b7391aa02c4f1e0d9b8"); err != nil {
		t.Error(err)
	}
}

func TestPrintHidesSecrets(t *testing.T) {
	t.Parallel()
	var cli struct {
		config.Server `embed:""`
		config.Stores `embed:""`
	}
	p, err := kong.New(&cli)
	if err != nil {
		t.Fatal(err)
	}
	ctx, err := p.Parse([]string{
		"--signing-key=planted-secret-1", "--database-url=postgres://user:planted-secret-2@db.example/shop?password=planted-secret-3",
		"--redis-url=redis://:planted-secret-4@cache.example:6379/0", "--nats-url=nats://planted-secret-5@bus.example:4222",
		"--alarm-webhook-url=https://ops.example/alarms?key=planted-secret-6", "--alarm-webhook-secret=planted-secret-7-planted-secret-7",
	})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := config.Print(&out, ctx.Flags()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "planted-secret") {
		t.Errorf("a secret is printed:\n%s", out.String())
	}
	for _, want := range []string{"db.example/shop", "cache.example:6379", "bus.example:4222", "ops.example/alarms", "STAMPEDE_SIGNING_KEY", "(set, 16 bytes)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
}

func TestStoreURLs(t *testing.T) {
	t.Parallel()
	good := config.Stores{DatabaseURL: "postgres://u:p@h/d", RedisURL: "redis://h:6379/0", NATSURL: "nats://h:4222"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]config.Stores{
		"--database-url": {DatabaseURL: "mysql://h/d", RedisURL: good.RedisURL},
		"--redis-url":    {DatabaseURL: good.DatabaseURL, RedisURL: "h:6379"},
		"--nats-url":     {DatabaseURL: good.DatabaseURL, RedisURL: good.RedisURL, NATSURL: "http://h"},
	} {
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v, want it to name %s", bad, err, name)
		}
	}
}
