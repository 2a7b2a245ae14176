package cli

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/require"
)

// TestAttackDangersAreNamed: each of these started in silence.
func TestAttackDangersAreNamed(t *testing.T) {
	t.Parallel()
	here := httpx.Addresses{Listen: "127.0.0.1:8080", OpsListen: "127.0.0.1:9180"}
	for _, c := range []struct {
		addresses httpx.Addresses
		args      string
		practises bool
		proxies   []string
		want      string // the flags
	}{
		{here, "serve --listen=127.0.0.1:8080", true, nil, ""},
		{httpx.Addresses{Listen: ":8080", OpsListen: "10.1.2.3:9180", PublicURL: "https://sale.example.com"}, "serve", false, []string{"10.0.0.0/8"}, ""},
		{httpx.Addresses{Listen: "127.0.0.1:8080", OpsListen: "127.0.0.1:9180", PublicURL: "https://sale.example.com"}, "serve", false, nil, "--trusted-proxies"},
		{httpx.Addresses{Listen: ":8080", OpsListen: "127.0.0.1:9180"}, "serve", true, nil, "--sandbox"},
		{here, "serve", false, []string{"127.0.0.1"}, "--public-url"},
		{httpx.Addresses{Listen: "127.0.0.1:8080", OpsListen: "8.8.8.8:9180"}, "serve", false, nil, "--ops-listen"},
		{httpx.Addresses{Listen: "127.0.0.1:8080", OpsListen: "[2400::1]:9180"}, "serve", false, nil, "--ops-listen"},
		{httpx.Addresses{Listen: "127.0.0.1:8080", OpsListen: ":0", PublicURL: "http://sale.example.com"}, "serve", false, nil, "--public-url"},
		{here, "serve --redis-url redis://127.0.0.1:6379/0 --database-url=postgres://u@h/d", false, nil, ""},
		{here, "serve --signing-key=abc --database-url postgres://u:p@h/d", false, nil, "--database-url --signing-key"},
		{here, "serve --redis-url redis-cluster://a:6379,b:6379 --nats-url=nats://a:4222,b:4222", false, nil, ""},
		{here, "serve --redis-url=redis-sentinel://u@a:26379,b:26379/1?master=shop", false, nil, ""},
		{here, "serve --redis-url=redis-sentinel://:abc@a:26379,b:26379/1?master=shop --nats-url nats://a:4222,abc@b:4222", false, nil, "--nats-url --redis-url"},
		{here, "serve --nats-url=tls://abc@a:4222 --lock-redis-urls redis://a:1,redis://:abc@b:1,redis://c:1", false, nil, "--lock-redis-urls --nats-url"},
		{here, "serve --redis-url=redis://:a/c@h:6379 --database-url postgres://h/d?password=abc", false, nil, "--database-url --redis-url"},
		{here, "serve --backup-to /backups", false, nil, ""},
		{here, "serve --backup-to=s3://k:abc@h/b/p", false, nil, "--backup-to"},
	} {
		var set struct {
			Base     `embed:""`
			Requests httpx.Settings `embed:""`
			Sandbox  bool           `practice:""`
			BackupTo string         `secret:""`
		}
		set.Addresses, set.Sandbox, set.Requests.TrustedProxies = c.addresses, c.practises, c.proxies
		s := Settings{Base: &set.Base, Plugins: kong.Plugins{&set}}
		found := s.dangers(strings.Fields(c.args), &Stores{})
		var flags []string
		for _, f := range found {
			if f.Subject != "--ops-listen" || c.addresses.OpsListen != ":0" { // which depends on the machine
				flags = append(flags, f.Subject)
			}
			if strings.Contains(f.Detail, "abc") || strings.Contains(f.Detail, "u:p") {
				t.Errorf("%s: the detail contains a secret: %s", c.args, f.Detail)
			}
		}
		slices.Sort(flags)
		require.Equal(t, fmt.Sprintf("%+v, %s", c.addresses, c.args), strings.Join(flags, " "), c.want)
		probe := found.probe(t.Context(), slog.New(slog.DiscardHandler))
		for range 3 { // every minute
			if again, err := probe.Look(t.Context()); err != nil || !slices.Equal(again, found) {
				t.Errorf("the alarm is over: %v, %v", again, err)
			}
		}
	}
}
