package backup

import (
	"testing"

	"stampede/platform/workshop/require"
)

// Other accounts can read a command line, and libpq refuses what it does not know.
func TestCommandLineHasNoPassword(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"postgres://shop:secret@db:5432/shop?sslmode=verify-full":                                                          "--dbname=postgres://shop@db:5432/shop?sslmode=verify-full",
		"postgres://shop@db/shop?password=secret&pool_max_conns=4&statement_cache_capacity=0&default_query_exec_mode=exec": "--dbname=postgres://shop@db/shop",
		"postgres://shop:secret@db/shop?application_name=nightly&lock_timeout=3000":                                        "--dbname=postgres://shop@db/shop?application_name=nightly",
	} {
		cmd, _ := command(t.Context(), "pg_dump", given)
		require.Equal(t, "the command line", cmd.Args[1], want)
		require.Equal(t, "the password", cmd.Env[len(cmd.Env)-1], "PGPASSWORD=secret")
	}
}
