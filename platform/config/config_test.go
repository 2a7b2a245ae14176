package config_test

import (
	"slices"
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
		{"--listen=127.0.0.1:99999", "--listen must be host:port with a port up to 65535"},
		{"--ops-listen=127.0.0.1:http", "--ops-listen must be host:port"},
		{"--ops-listen=127.0.0.1:8080", "--listen and --ops-listen must differ"},
		{"--public-url=sale.example.com", "--public-url must be like"},
		{"--time-zone=Beijing", "--time-zone must be an IANA name"},
		{"--time-zone=", "--time-zone must be an IANA name"},
		{"--time-zone=Local", "--time-zone must be an IANA name"},
		{"--alarm-webhook-url=http://example.com/alarms --alarm-webhook-secret=0123456789abcdef0123456789abcdef", "--alarm-webhook-url must begin with https://"},
		{"--alarm-webhook-url=https://example.com/alarms --alarm-webhook-secret=short", "--alarm-webhook-secret must have at least 32 bytes"},
		{"--alarm-webhook-secret=0123456789abcdef0123456789abcdef", "give both or neither"},
		{"--keep-records=24h", "--keep-records must be at least"},
		{"--settle-after=10s", "--settle-after must be a duration between 1m and 720h, not 10s"},
		{"--preheat-lead=0s", "--preheat-lead must be a duration between 1m and 24h, not 0s"},
		{"--publish-deadline=10m", "--publish-deadline must be a duration between 100ms and 1m, not 10m0s"},
		{"--order-cache-ttl=1ns", "--order-cache-ttl must be a duration between 1m and 720h, not 1ns"},
		{"--stop-timeout=-10s", "--stop-timeout must be a duration between 1s and 10m, not -10s"},
		{"--drain-timeout=20s", "--drain-timeout must be a duration shorter than --stop-timeout (10s)"},
		{"--drain-timeout=0s", "--drain-timeout must be a duration shorter than"},
		{"--lane-capacity=0", "--lane-capacity must be between 64 and 1048576, not 0"},
		{"--writer-lag-max=1", "--writer-lag-max must be between 1000 and 10000000, not 1"},
		{"--max-sockets=0", "--max-sockets must be between 1 and 10000000, not 0"},
		{"--grants-max-mib=99999999999999", "--grants-max-mib must be between 1 and 1048576"},
		{"--events-max-mib=0", "--events-max-mib must be between 1 and 1048576"},
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

// TestAllComplaintsComeAtOnce, in the order of the settings, so that a file of
// settings is put right in one go.
func TestAllComplaintsComeAtOnce(t *testing.T) {
	t.Parallel()
	_, _, err := parse(t, "--listen=shop", "--ops-listen=port", "--time-zone=Beijing", "--lane-capacity=0", "--conns-order=1", "--login-per-phone=-1",
		"--sms-signature=", "--wechat-app-id=wx1", "--paths-per-minute=-1", "--max-in-flight=-1", "--blacklist-max=1", "--claim-keep=-1s", "--slide-tolerance=0", "--trace-sample=2",
		"--alarm-webhook-secret=short", "--keep-records=1h")
	var got []string
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			flag, _, _ := strings.Cut(line, " ")
			got = append(got, flag)
		}
	}
	want := []string{
		"--listen", "--ops-listen", "--time-zone", "--lane-capacity", "--conns-order", "--login-per-phone", "--sms-signature", "--wechat-app-id",
		"--paths-per-minute", "--max-in-flight", "--blacklist-max", "--claim-keep", "--slide-tolerance", "--trace-sample", "--alarm-webhook-secret", "--keep-records",
	}
	if !slices.Equal(got, want) {
		t.Errorf("complaints about %q, want %q", got, want)
	}
	err = config.Stores{RedisURL: "h:6379", NATSURL: "http://h"}.Validate()
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three URLs that will not do: %v", err)
	}
}

func TestOnlyHere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		listen, public string
		want           bool
	}{
		{"127.0.0.1:8080", "", false},
		{"localhost:8080", "", false},
		{"192.0.2.1:8080", "", false},
		{":8080", "https://sale.example.com", false},
		{"127.0.0.1:8080", "http://127.0.0.1:8080", false},
		{":8080", "", true},
		{"0.0.0.0:8080", "", true},
		{"[::]:8080", "", true},
		{":8080", "http://localhost:8080", true},
		{"192.0.2.1:8080", "http://[::1]:8080", true},
	} {
		if got := (config.Server{Listen: c.listen, PublicURL: c.public}).OnlyHere(); got != c.want {
			t.Errorf("listening on %s, public URL %q: %v", c.listen, c.public, got)
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
		"redis://:pass":  {DatabaseURL: good.DatabaseURL, RedisURL: "redis://:planted-secret@h:port/0"}, // what it looks like
		"must be like p": {DatabaseURL: "postgres://u:planted-secret@h:port/d", RedisURL: good.RedisURL},
		"must be like n": {DatabaseURL: good.DatabaseURL, RedisURL: good.RedisURL, NATSURL: "nats://planted-secret@h:port"},
	} {
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "planted-secret") {
			t.Errorf("%+v: %v, want it to name %s", bad, err, name)
		}
	}
}
