package shop

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/platform/workshop/require"
)

// DatabaseBeside creates a database from a template beside another and returns its URL.
func DatabaseBeside(t *testing.T, databaseURL, suffix, template string) string {
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
		require.NoError(t, administer(context.Background(), `DROP DATABASE IF EXISTS "`+created+`" WITH (FORCE)`))
	})
	require.NoError(t, administer(t.Context(), `CREATE DATABASE "`+created+`" TEMPLATE "`+template+`"`))
	if !strings.Contains(databaseURL, name) {
		t.Fatalf("the URL %s does not contain its database %s", databaseURL, name)
	}
	return strings.Replace(databaseURL, name, created, 1)
}
