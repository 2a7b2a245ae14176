package cli

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"stampede/platform/edge/httpx"
)

// TestAttackDangersAreNamed: each of these started in silence.
func TestAttackDangersAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		addresses httpx.Addresses
		args      string
		practises bool
		want      string // the flags
	}{
		{httpx.Addresses{Listen: "127.0.0.1:8080", OpsListen: "127.0.0.1:9180"}, "serve --listen=127.0.0.1:8080", true, ""},
		{httpx.Addresses{Listen: ":8080", OpsListen: "10.1.2.3:9180", PublicURL: "https://sale.example.com"}, "serve", false, ""},
		{httpx.Addresses{Listen: ":8080", OpsListen: "127.0.0.1:9180"}, "serve", true, "--sandbox"},
		{httpx.Addresses{Listen: "127.0.0.1:8080", OpsListen: "8.8.8.8:9180"}, "serve", false, "--ops-listen"},
		{httpx.Addresses{Listen: "127.0.0.1:8080", OpsListen: "[2400::1]:9180"}, "serve", false, "--ops-listen"},
		{httpx.Addresses{Listen: "127.0.0.1:8080", OpsListen: ":0", PublicURL: "http://sale.example.com"}, "serve", false, "--public-url"},
		{httpx.Addresses{Listen: "127.0.0.1:8080", OpsListen: "127.0.0.1:9180"}, "serve --redis-url redis://127.0.0.1:6379/0 --database-url=postgres://u@h/d", false, ""},
		{httpx.Addresses{Listen: "127.0.0.1:8080", OpsListen: "127.0.0.1:9180"}, "serve --signing-key=abc --database-url postgres://u:p@h/d", false, "--database-url --signing-key"},
	} {
		var set struct {
			Base    `embed:""`
			Sandbox bool `practice:""`
		}
		set.Addresses, set.Sandbox = c.addresses, c.practises
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
		if got := strings.Join(flags, " "); got != c.want {
			t.Errorf("%+v, %s: found %q, want %q", c.addresses, c.args, got, c.want)
		}
		probe := found.probe(t.Context(), slog.New(slog.DiscardHandler))
		for range 3 { // every minute
			if again, err := probe.Look(t.Context()); err != nil || !slices.Equal(again, found) {
				t.Errorf("the alarm is over: %v, %v", again, err)
			}
		}
	}
}
