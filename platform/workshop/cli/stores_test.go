package cli

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stampede/platform/base/app"
	"stampede/platform/workshop/require"
)

func TestStoreURLs(t *testing.T) {
	t.Parallel()
	good := Stores{DatabaseURL: "postgres://u:p@h/d", RedisURL: "redis://h:6379/0", NATSURL: "nats://h:4222"}
	require.NoError(t, good.Check())
	for name, bad := range map[string]Stores{
		"--database-url": {DatabaseURL: "mysql://h/d", RedisURL: good.RedisURL},
		"--redis-url":    {DatabaseURL: good.DatabaseURL, RedisURL: "h:6379"},
		"--nats-url":     {DatabaseURL: good.DatabaseURL, RedisURL: good.RedisURL, NATSURL: "http://h"},
		"redis://:pass":  {DatabaseURL: good.DatabaseURL, RedisURL: "redis://:planted-secret@h:port/0"}, // an example of the right form
		"must be like p": {DatabaseURL: "postgres://u:planted-secret@h:port/d", RedisURL: good.RedisURL},
		"odd number":     {DatabaseURL: good.DatabaseURL, RedisURL: good.RedisURL, LockRedisURLs: []string{"redis://a:1", "redis://b:1"}},
		"independent":    {DatabaseURL: good.DatabaseURL, RedisURL: good.RedisURL, LockRedisURLs: []string{"redis://a:1", "redis://b:1", "redis://a:1"}},
		"urls, number 1": {DatabaseURL: good.DatabaseURL, RedisURL: good.RedisURL, LockRedisURLs: []string{"redis://:planted-secret@h:port"}},
		"must be like n": {DatabaseURL: good.DatabaseURL, RedisURL: good.RedisURL, NATSURL: "nats://planted-secret@h:port"},
	} {
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "planted-secret") {
			t.Errorf("%+v: %v, want it to name %s", bad, err, name)
		}
	}
	// Commands that need only the database refuse the same.
	const dsn = "host=127.0.0.1 port=1 user=u password=planted-secret"
	_, _, found := findDatabase(t.Context(), dsn, t.TempDir())
	for _, err := range []error{found, (&Restore{DatabaseURL: dsn, KeyTo: "key"}).Validate()} {
		if err == nil || !strings.HasPrefix(err.Error(), "--database-url must be like ") {
			t.Errorf("no URL: %v", err)
		}
	}
	err := Stores{RedisURL: "h:6379", NATSURL: "http://h"}.Check()
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three wrong URLs: %v", err)
	}
}

// TestStreamsAreFoundFromAnywhere: the default folder of the embedded NATS is the same
// wherever the server is started, unless an earlier version left one there; and it serves
// one server at a time.
func TestStreamsAreFoundFromAnywhere(t *testing.T) {
	at := func(given string) (string, bool) {
		t.Helper()
		dir, former, err := streamsFolder(given)
		if err != nil || !filepath.IsAbs(dir) {
			t.Fatalf("%q: %q, %v", given, dir, err)
		}
		return dir, former
	}
	t.Chdir(t.TempDir())
	first, _ := at("")
	t.Chdir(t.TempDir())
	if second, former := at(""); second != first || former {
		t.Errorf("%s here, %s there (%v)", first, second, former)
	}
	require.NoError(t, os.MkdirAll(filepath.Join("data", "nats"), 0o700))
	here, former := at("")
	if !former || !strings.HasSuffix(here, filepath.Join("data", "nats")) || here == first {
		t.Errorf("a folder from before: %s, %v", here, former)
	}
	if given, former := at("nats"); former || given == here {
		t.Errorf("a setting: %s, %v", given, former)
	}
	data := t.TempDir() // root's
	require.NoError(t, os.MkdirAll(filepath.Join(data, "nats"), 0o700))
	require.NoError(t, os.RemoveAll("data"))
	require.Equal(t, "streams of an earlier serve", formerStreams(data), filepath.Join(data, "nats"))
	require.NoError(t, os.WriteFile(filepath.Join(data, "stampede.json"), nil, 0o600))
	require.Equal(t, "streams of run", formerStreams(data), "")
	a := app.New(slog.New(slog.DiscardHandler))
	require.NoError(t, holdFolder(a, here))
	if err := holdFolder(a, here); err == nil || !strings.Contains(err.Error(), "--nats-dir") {
		t.Errorf("a second server: %v", err)
	}
}
