package run

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// released is a shop as a release left it, see migrations/testdata.
type released struct {
	Stopped    time.Time `json:"stopped"`
	SigningKey string    `json:"signing_key"`
	Granted    []string  `json:"granted"`
	Orders     map[string]struct {
		No   string `json:"order_no"`
		User int64  `json:"user"`
	} `json:"orders"`
}

// TestUpgradeFromRelease starts this program with the data of a shop that 0.9.0 ran,
// open sale and queue included, and sells on.
func TestUpgradeFromRelease(t *testing.T) {
	t.Parallel()
	fresh, redisURL, dir, addr := pgtest.DatabaseURL(t), pgtest.RedisURL(t), t.TempDir(), shop.FreeAddr(t)
	databaseURL := pgtest.EmptyDatabaseURL(t)
	victim := restoreRelease(t, "migrations/testdata/release-0.9.0.tar.gz", dir, addr, databaseURL, redisURL)
	in := shop.Serve(t, databaseURL, redisURL, "--listen="+addr, "--signing-key="+victim.SigningKey, "--nats-dir="+filepath.Join(dir, "nats"))
	require.Equal(t, "the upgraded schema, beside a fresh one,", schemaOf(t, databaseURL), schemaOf(t, fresh))

	tokens := auth.NewTokens([]byte(victim.SigningKey), time.Now)
	as := func(user int64, role auth.Role) shop.Buyer {
		token := httpxtest.Token(t, tokens, auth.Principal{UserID: user, Role: role})
		return shop.Buyer{In: in, Token: token}
	}
	for name, order := range victim.Orders {
		status := map[string]string{
			"b-late": "paid", "b-paid": "paid", "e-paid": "paid", "account-paid": "paid", "unlimited-paid": "paid", "paid": "paid", "paid2": "paid",
			"free": "paid", "refused": "refused", "e-cancel": "closed", "e-timeout": "closed", "canceled": "closed", "canceled-paying": "closed",
			"b-timeout": "closed", "b-timeout-paying": "closed", "b-underpaid-refund-fails": "closed",
		}[name]
		if status == "" {
			status = "pending_payment"
		}
		_, doc := in.Call(t, http.MethodGet, "/api/v1/orders/"+order.No, as(order.User, auth.Shopper).Token, nil)
		if doc["status"] != status || (doc["paid_at"] != nil) != (status == "paid") {
			t.Errorf("order %s: %v", name, doc)
		}
	}
	operator := as(900_002, auth.Operator)
	for _, no := range victim.Granted { // grants of the release become orders
		pgtest.Eventually(t, 30*time.Second, func() bool {
			_, doc := in.Call(t, http.MethodGet, "/api/v1/admin/orders/"+no, operator.Token, nil)
			order, _ := doc["order"].(map[string]any)
			return order["status"] == "pending_payment"
		}, "the grant "+no+" to become an order")
	}

	begun := victim.Orders["pending-paying"] // paid at the address that the release gave out
	payer := as(begun.User, auth.Shopper)
	payer.Pay(t, begun.No)
	as(800_000, auth.Shopper).Order(t, "7") // the open sale goes on
	as(800_001, auth.Shopper).Paid(t, "7")
	_, code := payer.Rush(t, "7")
	require.Equal(t, "the answer to a buyer of the release", code, "already-bought")
	login := map[string]any{"phone": "+8613800138001", "password": "correct horse 42"}
	in.Do(t, http.MethodPost, "/api/v1/auth/login", "", login, http.StatusOK)

	var refunds map[string]any
	pgtest.Eventually(t, 30*time.Second, func() bool {
		_, refunds = in.Call(t, http.MethodGet, "/api/v1/admin/refunds?status=requested", operator.Token, nil)
		list, _ := refunds["data"].([]any)
		return len(list) == 0
	}, "the refund that was under way to succeed")
	_, refunds = in.Call(t, http.MethodGet, "/api/v1/admin/refunds?status=failed", operator.Token, nil)
	failed, _ := refunds["data"].([]any)
	for _, refund := range failed {
		no, _ := refund.(map[string]any)["refund_no"].(string)
		in.Do(t, http.MethodPost, "/api/v1/admin/refunds/"+no+"/settle-by-hand", operator.Token, map[string]string{"receipt": "bank slip 1"}, http.StatusOK)
	}
	require.Equal(t, "failed refunds", len(failed), 1)
	pgtest.Eventually(t, time.Minute, func() bool {
		var out, errs bytes.Buffer
		code := shop.Run(t.Context(), []string{"verify", "--database-url=" + databaseURL, "--redis-url=" + redisURL, "--data=" + t.TempDir()}, &out, &errs)
		if code != 0 { // such as a payment whose event is on its way to Redis
			t.Logf("verify: exit %d\n%s\n%s", code, out.String(), errs.String())
		}
		return code == 0
	}, "the books to be proved")
}

// restoreRelease puts a released shop's data into a folder, an empty database and an
// empty Redis, with every time of Postgres moved as if it had stopped a moment ago, and
// the shop's address replaced.
func restoreRelease(t *testing.T, archive, dir, addr, databaseURL, redisURL string) (victim released) {
	t.Helper()
	raw, err := os.ReadFile(archive)
	require.NoError(t, err)
	packed, err := gzip.NewReader(bytes.NewReader(raw))
	require.NoError(t, err)
	files := map[string]string{}
	for unpacked := tar.NewReader(packed); ; {
		header, err := unpacked.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		var content []byte
		if err == nil {
			content, err = io.ReadAll(unpacked)
		}
		if err == nil && header.Typeflag == tar.TypeReg {
			path := filepath.Join(dir, header.Name) // our own archive
			files[filepath.Clean(header.Name)] = string(content)
			err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600))
		}
		require.NoError(t, err)
	}
	require.NoError(t, json.Unmarshal([]byte(files["shop.json"]), &victim))
	conn := pgtest.Connect(t, databaseURL)
	for _, sql := range []string{strings.ReplaceAll(files["postgres.sql"], "127.0.0.1:18081", addr), `DO $$ DECLARE c record; BEGIN
		SET LOCAL session_replication_role = replica;
		FOR c IN SELECT table_schema AS s, table_name AS t, string_agg(format('%1$I = %1$I + (clock_timestamp() - %2$L)', column_name, '` +
		victim.Stopped.Format(time.RFC3339) + `'::timestamptz), ', ') AS set
			FROM information_schema.columns JOIN pg_class ON oid = format('%I.%I', table_schema, table_name)::regclass
			WHERE data_type LIKE 'timestamp with%' AND NOT relispartition AND table_schema NOT IN ('pg_catalog', 'information_schema') GROUP BY 1, 2
		LOOP EXECUTE format('UPDATE %I.%I SET %s', c.s, c.t, c.set); END LOOP; END $$`} {
		_, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
		require.NoError(t, err)
	}
	rdb := pgtest.RedisAt(t, redisURL)
	for line := range strings.Lines(files["redis.txt"]) {
		fields := strings.Fields(line)
		ms, err := strconv.Atoi(fields[0])
		key, err2 := base64.StdEncoding.DecodeString(fields[1])
		value, err3 := base64.StdEncoding.DecodeString(fields[2])
		require.NoError(t, errors.Join(err, err2, err3, rdb.Restore(t.Context(), string(key), time.Duration(ms)*time.Millisecond, string(value)).Err()))
	}
	return victim
}

// schemaOf describes all that migrations create, apart from the partitions that time adds.
func schemaOf(t *testing.T, databaseURL string) []string {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	rows, err := conn.Query(t.Context(), `
		WITH ours AS (SELECT oid, nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'),
		all_lines AS MATERIALIZED (
			SELECT format('column %s %s %s %s null:%s %s %s %s', a.attrelid::regclass, row_number() OVER (PARTITION BY a.attrelid ORDER BY attnum), attname,
				format_type(atttypid, atttypmod), NOT attnotnull, attidentity, attstorage, pg_get_expr(adbin, adrelid)) AS line
			FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid JOIN ours ON ours.oid = relnamespace LEFT JOIN pg_attrdef d ON adrelid = attrelid AND adnum = attnum
			WHERE attnum > 0 AND NOT attisdropped AND relkind IN ('r', 'p', 'v')
			UNION ALL SELECT format('relation %s %s %s %s %s %s', c.oid::regclass, relkind, reloptions, relacl, pg_get_expr(relpartbound, c.oid), pg_get_partkeydef(c.oid))
			FROM pg_class c JOIN ours ON ours.oid = relnamespace
			UNION ALL SELECT format('constraint %s %s %s %s', conrelid::regclass, conname, convalidated, pg_get_constraintdef(c.oid)) FROM pg_constraint c JOIN ours ON ours.oid = connamespace
			UNION ALL SELECT 'index ' || pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class c ON c.oid = indrelid JOIN ours ON ours.oid = relnamespace
			UNION ALL SELECT 'trigger ' || pg_get_triggerdef(g.oid) FROM pg_trigger g JOIN pg_class c ON c.oid = tgrelid JOIN ours ON ours.oid = relnamespace WHERE NOT tgisinternal
			UNION ALL SELECT 'function ' || pg_get_functiondef(p.oid) FROM pg_proc p JOIN ours ON ours.oid = pronamespace
			UNION ALL SELECT 'view ' || pg_get_viewdef(c.oid) FROM pg_class c JOIN ours ON ours.oid = relnamespace WHERE relkind = 'v'
		)
		SELECT line FROM all_lines WHERE line !~ '(outbox|inbox)_20[0-9]{6}' ORDER BY line`)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(lines) < 1000 {
		t.Fatal(len(lines), err)
	}
	return lines
}
