package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

func TestMain(m *testing.M) { shop.Main(m) }

func TestCommandLine(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, c := range []struct {
		args []string
		code int
		want string // in stderr, or in stdout for code 0
	}{
		{[]string{"version"}, 0, "stampede "},
		{nil, 0, "Usage: stampede"},
		{[]string{"--help"}, 0, "verify"},
		{[]string{"sell"}, 2, "unexpected argument sell\nTry: stampede --help\n"},
		{[]string{"serve", "--preheat-lead=30"}, 2, `--preheat-lead: a duration needs a unit, such as 30s, 5m or 1h30m; "30" has none`},
		{[]string{"serve"}, 2, "--database-url and --redis-url are needed"},
		{[]string{"serve", "--database-url=postgres://h/d", "--redis-url=redis://h:1"}, 2, "STAMPEDE_SIGNING_KEY"},
		{[]string{"serve", "--database-url=postgres://h/d", "--redis-url=redis://h:1", "--signing-key=changeme-changeme-changeme-changeme"}, 2, "example"},
		{[]string{"serve", "--database-url=mysql://h/d", "--redis-url=redis://h:1"}, 2, "--database-url must be like"},
		{[]string{"token", "--user=0", "--signing-key=" + shop.Key}, 2, "--user must be an id from 1, not 0\nTry: stampede token --help\n"},
		{[]string{"token", "--user=9223372036854775807", "--count=2", "--signing-key=" + shop.Key}, 2, "--count 2 exceeds the largest user id"},
		{[]string{"token", "--user=1", "--role=root", "--signing-key=" + shop.Key}, 2, "--role must be one of"},
		{[]string{"token", "--user=1", "--data=" + empty}, 1, "no stack is known there"},
		{[]string{"rush", "--item=1", "--data=" + empty}, 1, "no signing key"},
		{[]string{"rush", "--data=" + empty, "--signing-key=" + shop.Key}, 2, "name the item with --item ID, or let --demo plan a sale\nTry: stampede rush --help\n"},
		{[]string{"rush", "--item=1", "--rate=fast", "--data=" + empty, "--signing-key=" + shop.Key}, 2, "--rate must be attempts per second or max"},
		{[]string{"rush", "--item=1", "--pay=8", "--data=" + empty, "--signing-key=" + shop.Key}, 2, "--pay must be a share"},
		{[]string{"rush", "--item=1", "--demo", "--data=" + empty, "--signing-key=" + shop.Key}, 2, "either --item or --demo"},
		{[]string{"rush", "--demo", "--conns=0"}, 2, "the number of connections must be between 1 and 10000, not 0"},
		{[]string{"bench", "--stages=nothing"}, 2, "there is no stage \"nothing\""},
		{[]string{"capacity", "--shoppers=10000000", "--units=10000", "--within=5s", "--bench=" + empty + "/none.json"}, 1, "run it once on this machine"},
		{[]string{"capacity", "--shoppers=1", "--units=1", "--within=0s"}, 2, "--within and --paths-within must be above 0"},
		{[]string{"capacity", "--shoppers=1", "--units=1", "--within=1s", "--busy=NaN"}, 2, "--busy must be a share"},
		{[]string{"migrate", "--back", "--database-url=postgres://h.invalid/d"}, 31, "correct --database-url (STAMPEDE_DATABASE_URL)"},
		{[]string{"run", "--demo-every=1s", "--data=" + empty}, 2, "--demo-every must be at least 10s"},
		{[]string{"run", "--signing-key=short", "--data=" + empty}, 2, "STAMPEDE_SIGNING_KEY"},
		{[]string{"verify", "--data=" + empty}, 3, "no stack is known there"},
		{[]string{"verify", "--database-url=postgres://h.invalid/d", "--redis-url=redis://h.invalid:1"}, 3, "The host name of postgres://h.invalid/d does not resolve here"},
		{[]string{"reconcile", "--data=" + empty}, 3, "no stack is known there"},
		{[]string{"migrate", "--database-url=postgres://h.invalid/d"}, 31, "correct --database-url (STAMPEDE_DATABASE_URL)"},
	} {
		var out, errs bytes.Buffer
		code := run(t.Context(), c.args, &out, &errs)
		text := errs.String()
		if c.code == 0 {
			text = out.String()
		}
		if code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("stampede %s: exit %d, want %d with %q:\n%s", strings.Join(c.args, " "), code, c.code, c.want, text)
		}
	}
}

// The committed OpenAPI document must match the routes; `make generate` rewrites it.
func TestServedRoutes(t *testing.T) {
	t.Parallel()
	served := shop.Fetch(t, serveHere(t)+"/openapi.json").Raw
	const name = "platform/edge/httpx/openapi.json"
	if os.Getenv("STAMPEDE_UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(name, served, 0o600))
		return
	}
	committed, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(committed, served) {
		t.Errorf("%s differs from the served document (%v); run `make generate` and commit it", name, err)
	}
}

// serveHere starts a server inside this process.
func serveHere(t *testing.T) (url string) {
	t.Helper()
	databaseURL, redisURL := pgtest.DatabaseURL(t), pgtest.RedisURL(t)
	ctx, cancel := context.WithCancel(context.Background())
	out, errs, ended := shop.NewConsole(), shop.NewConsole(), make(chan struct{})
	go func() {
		defer close(ended)
		run(ctx, []string{
			"serve", "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--database-url=" + databaseURL, "--redis-url=" + redisURL,
			"--signing-key=" + shop.Key, "--nats-dir=" + t.TempDir(), "--sandbox-bank", "--log-level=warn", "--max-conns=28",
		}, out, errs)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if t.Failed() {
			t.Logf("server printed:\n%s%s", out, errs)
		}
	})
	return out.Await(t, `serves (\S+);`, time.Minute, ended)
}
