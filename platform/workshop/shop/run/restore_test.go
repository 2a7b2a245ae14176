package run

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// TestRestoredBackupIsTheTruth sells one unit, makes a backup, sells another one, and
// serves the backup beside the Redis and the NATS that saw both. The unit sold after the
// backup is on sale again, and no answer contradicts that. At last it is restored on a
// machine that has nothing.
func TestRestoredBackupIsTheTruth(t *testing.T) {
	t.Parallel()
	databaseURL, redisURL, natsURL := pgtest.DatabaseURL(t), pgtest.RedisURL(t), bustest.StartServer(t).URL
	in := shop.Serve(t, databaseURL, redisURL, "--nats-url="+natsURL)
	sale := in.Plan(t, 2, time.Second)
	buys := func(in *shop.Instance, user int64) (b shop.Buyer, no string) {
		t.Helper()
		b = shop.NewBuyer(t, in, user)
		return b, b.Order(t, sale.ItemID)
	}
	first, kept := buys(in, 1)
	in.Do(t, http.MethodPost, "/api/v1/admin/webhooks", shop.Mint(t, 1, auth.Admin), map[string]any{"url": "https://shop.example/"}, http.StatusCreated)
	rdb := pgtest.RedisAt(t, redisURL)
	file, key := backUp(t, databaseURL)
	beat := rdb.Get(t.Context(), "heartbeat").Val()
	second, lost := buys(in, 2)
	pgtest.Eventually(t, 30*time.Second, func() bool { return rdb.Get(t.Context(), "heartbeat").Val() != beat }, "a heartbeat that is not in the backup")
	in.Stop()
	backupURL := pgtest.EmptyDatabaseURL(t)
	restore(t, file, key, backupURL)

	// What a restored backup would meet if the start left it there lives on for as long as nothing else does.
	const marked = 5000 * time.Hour
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		if key != "heartbeat" && key != "instances" { // about the Redis, not from the database
			rdb.Expire(t.Context(), key, marked)
		}
	}
	require.NoError(t, rdb.Set(t.Context(), "cart:1", "another program's", 0).Err())

	in = shop.Serve(t, backupURL, redisURL, "--nats-url="+natsURL)
	_, doc := in.Call(t, http.MethodGet, "/api/v1/admin/alarms?open=true&code=database-went-back", shop.Mint(t, 1, auth.Operator), nil)
	list, _ := doc["data"].([]any)
	require.Equal(t, "alarms of a restored database", len(list), 1)
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		if rdb.TTL(t.Context(), key).Val() > marked/2 {
			t.Errorf("%s was not deleted: no module's RedisKeys has its prefix", key)
		}
	}
	second.In, first.In = in, in
	first.AwaitStatus(t, kept, "pending_payment", 10*time.Second)
	buys(in, 3)
	in.Do(t, http.MethodGet, "/api/v1/orders/"+lost, second.Token, nil, http.StatusNotFound)
	_, code := second.Rush(t, sale.ItemID)
	require.Equal(t, "the answer to a third unit of two", code, "all-held")
	in.Stop()
	require.Equal(t, "another program's keys", rdb.Exists(t.Context(), "cart:1").Val(), 1)
	shop.Command(t, 0, "verify", "--database-url="+backupURL, "--redis-url="+redisURL, "--data="+t.TempDir())
}

// backUp makes a backup of a shop that serves, and returns its file and that of the private key.
func backUp(t *testing.T, databaseURL string) (file, key string) {
	t.Helper()
	dir := t.TempDir()
	key = filepath.Join(dir, "key.txt")
	args := []string{"backup", "--to=" + dir, "--database-url=" + databaseURL, "--signing-key=" + shop.Key, "--data=" + dir, "--new-key=" + key}
	shop.Command(t, 1, append(slices.Clone(args), "--signing-key=too-short")...) // restore would refuse it
	shop.Command(t, 1, append(slices.Clone(args), "--to="+key+"/folder")...)     // leaves no key that would be in the way
	said := shop.Command(t, 0, args...)
	shop.Command(t, 1, args...) // replaces no key
	public := regexp.MustCompile(`--for (age1\S+)`).FindStringSubmatch(said)
	require.Equal(t, "a public key", len(public), 2)
	args[1], args[len(args)-1] = "--to="+t.TempDir(), "--for="+public[1] // in the same second, whose name is taken
	file = regexp.MustCompile(` in (\S+), made`).FindStringSubmatch(shop.Command(t, 0, args...))[1]
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, plain := range []string{"PGDMP", shop.Key, "signing_key"} {
		require.Equal(t, "the file shows "+plain, bytes.Contains(raw, []byte(plain)), false)
	}
	return file, key
}

// restore puts a backup into an empty database, after trying what must leave it empty.
func restore(t *testing.T, file, key, databaseURL string) {
	t.Helper()
	dir := t.TempDir()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	signing := filepath.Join(dir, "signing.key")
	into := func(code int, backup, key string) (said string) {
		var out, errs bytes.Buffer
		require.Equal(t, "exit code", shop.Run(t.Context(), []string{"restore", backup, "--key=" + key, "--database-url=" + databaseURL, "--key-to=" + signing}, &out, &errs), code)
		return out.String() + errs.String()
	}
	damaged := filepath.Join(dir, "damaged")
	require.NoError(t, os.WriteFile(damaged, raw[:len(raw)-1], 0o600))
	require.Contains(t, "a damaged backup", into(1, damaged, key), "damaged, nothing was restored")
	if _, err := os.Stat(signing); err == nil {
		t.Error("the signing key of a damaged backup was left")
	}
	other := filepath.Join(dir, "other.txt")
	shop.Command(t, 0, "backup", "--to="+dir, "--database-url="+databaseURL, "--signing-key="+shop.Key, "--data="+dir, "--new-key="+other)
	require.Contains(t, "another key", into(1, file, other), "was made for another key")
	into(0, file, key)
	got, err := os.ReadFile(signing)
	require.NoError(t, err)
	require.Equal(t, "the signing key", string(got), shop.Key)
	require.NoError(t, os.Remove(signing))
	require.Contains(t, "a second time", into(1, file, key), "not empty")

	data := shop.DataDir(t)
	require.Contains(t, "a trial", shop.Command(t, 0, "restore", file, "--key="+key, "--data="+data, "--trial"), "webhooks are disabled")
	shop.Command(t, 1, "backup", "--to="+dir, "--database-url="+databaseURL, "--data="+data, "--new-key="+filepath.Join(dir, "of another shop")) // without its key
	p := shop.StartRun(t, data)
	p.AwaitReady(t)
	shop.Command(t, 0, "verify", "--data="+data)
	shop.Command(t, 0, "migrate", "--back", "--data="+data)
	sold := string(shop.Exchange(t, http.MethodGet, p.URL+"/api/v1/admin/orders", shop.Mint(t, 1, auth.Operator), "").Raw)
	hooks := string(shop.Exchange(t, http.MethodGet, p.URL+"/api/v1/admin/webhooks", shop.Mint(t, 1, auth.Admin), "").Raw)
	require.Contains(t, "the webhooks of a trial", hooks, `"enabled":false`)
	require.Contains(t, "the orders of the restored shop", sold, `"status":"pending_payment"`)
	require.Equal(t, "exit code after Ctrl-C", p.End(t, syscall.SIGINT, 30*time.Second), 0)
}
