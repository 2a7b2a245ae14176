package run

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/edge/auth"
	"stampede/platform/store/redisx"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// TestRestoredBackupIsTheTruth sells one unit, takes a backup of Postgres,
// sells another one, and serves the backup beside the Redis and the NATS that
// saw both. The unit sold after the backup is on sale again, and no answer
// contradicts that.
func TestRestoredBackupIsTheTruth(t *testing.T) {
	t.Parallel()
	databaseURL, redisURL, natsURL := pgtest.DatabaseURL(t), pgtest.RedisURL(t), bustest.StartServer(t).URL
	in := shop.Serve(t, databaseURL, redisURL, "--nats-url="+natsURL)
	sale := in.Plan(t, 2, time.Second)
	buys := func(in *shop.Instance, user int64) (b shop.Buyer, no string) {
		t.Helper()
		b = shop.NewBuyer(t, in, user)
		var code string
		pgtest.Eventually(t, 30*time.Second, func() bool {
			no, code = b.Rush(t, sale.ItemID)
			return code == "" || code == "all-held"
		}, "the item to sell")
		if code != "" {
			t.Fatalf("user %d got %s", user, code)
		}
		b.AwaitStatus(t, no, "pending_payment", 10*time.Second)
		return b, no
	}
	first, kept := buys(in, 1)
	in.Stop()
	backupURL := copyDatabase(t, databaseURL)

	in = shop.Serve(t, databaseURL, redisURL, "--nats-url="+natsURL)
	second, lost := buys(in, 2)
	in.Stop()
	rdb, err := redisx.Open(t.Context(), redisURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	// What a restored backup would meet if the start left it there lives on for as long as nothing else does.
	const marked = 5000 * time.Hour
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		if key != "heartbeat" {
			rdb.Expire(t.Context(), key, marked)
		}
	}
	require.NoError(t, rdb.Set(t.Context(), "cart:1", "another program's", 0).Err())

	in = shop.Serve(t, backupURL, redisURL, "--nats-url="+natsURL)
	_, doc := in.Call(t, http.MethodGet, "/api/v1/admin/alarms?open=true&code=database-went-back", shop.Mint(t, 1, auth.Operator), nil)
	if list, _ := doc["data"].([]any); len(list) != 1 {
		t.Errorf("alarms of a restored database: %v", doc)
	}
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		if rdb.TTL(t.Context(), key).Val() > marked/2 {
			t.Errorf("%s was not deleted: no module's RedisKeys has its prefix", key)
		}
	}
	second.In, first.In = in, in
	first.AwaitStatus(t, kept, "pending_payment", 10*time.Second)
	buys(in, 3)
	if status, doc := in.Call(t, http.MethodGet, "/api/v1/orders/"+lost, second.Token, nil); status != http.StatusNotFound {
		t.Errorf("an order that is not in the backup: %d %v", status, doc)
	}
	if _, code := second.Rush(t, sale.ItemID); code != "all-held" {
		t.Errorf("a third unit of two got %q, want all-held", code)
	}
	in.Stop()
	if rdb.Exists(t.Context(), "cart:1").Val() != 1 {
		t.Error("the start deleted another program's key")
	}
	var out, errs bytes.Buffer
	if code := shop.Run(t.Context(), []string{"verify", "--database-url=" + backupURL, "--redis-url=" + redisURL, "--data=" + t.TempDir()}, &out, &errs); code != 0 {
		t.Errorf("verify: exit %d\n%s\n%s", code, out.String(), errs.String())
	}
}

// copyDatabase copies a database that is currently unused, like a restored
// backup, and returns its URL.
func copyDatabase(t *testing.T, databaseURL string) string {
	t.Helper()
	config, err := pgx.ParseConfig(databaseURL)
	require.NoError(t, err)
	return databaseBeside(t, databaseURL, "backup", config.Database)
}

// databaseBeside creates a database from a template beside another and returns its URL.
func databaseBeside(t *testing.T, databaseURL, suffix, template string) string {
	t.Helper()
	config, err := pgx.ParseConfig(databaseURL)
	require.NoError(t, err)
	name, created := config.Database, config.Database+"_"+suffix
	config.Database = "postgres"
	administer := func(ctx context.Context, sql string) error {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(ctx) }()
		_, err = conn.Exec(ctx, sql)
		return err
	}
	t.Cleanup(func() {
		if err := administer(context.Background(), `DROP DATABASE IF EXISTS "`+created+`" WITH (FORCE)`); err != nil {
			t.Errorf("drop the database: %v", err)
		}
	})
	require.NoError(t, administer(t.Context(), `CREATE DATABASE "`+created+`" TEMPLATE "`+template+`"`))
	if !strings.Contains(databaseURL, name) {
		t.Fatalf("the URL %s does not contain its database %s", databaseURL, name)
	}
	return strings.Replace(databaseURL, name, created, 1)
}
