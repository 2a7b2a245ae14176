package run

import (
	"fmt"
	"net/http"
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
		require.Equal(t, fmt.Sprint("the answer to user ", user), code, "")
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

// copyDatabase copies a database that is currently unused, like a restored
// backup, and returns its URL.
func copyDatabase(t *testing.T, databaseURL string) string {
	t.Helper()
	config, err := pgx.ParseConfig(databaseURL)
	require.NoError(t, err)
	return shop.DatabaseBeside(t, databaseURL, "backup", config.Database)
}
