package pg_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// What is older or younger than now is found by an index only if now is stable: where a query compares the column that it
// orders by, or one that leads an index, with clock_timestamp(), which is volatile, Postgres reads every row. A query that
// finds its rows by their key may do so, to see the time after it has waited for a lock.
func TestQueriesFindWhatIsDueByTheirIndex(t *testing.T) {
	t.Parallel()
	config, err := os.ReadFile("sqlc.yaml")
	require.NoError(t, err)
	files := regexp.MustCompile(`queries: (\S+)`).FindAllSubmatch(config, -1)
	if len(files) < 30 {
		t.Fatalf("sqlc.yaml names %d files of queries", len(files))
	}
	compared := regexp.MustCompile(`(\w+) ([<>])=? clock_timestamp\(\)`)
	byKey := regexp.MustCompile(`\b(id|order_no|phone) = (@|n\.)`)
	indexed := pgtest.Read[[]string](t, pgtest.DB(t), `SELECT array_agg(i.indrelid::regclass || ' ' || a.attname) FROM pg_index i
		JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]`)
	for _, file := range files {
		raw, err := os.ReadFile(string(file[1]))
		require.NoError(t, err)
		for query := range strings.SplitSeq(string(raw), "-- name: ") {
			for _, column := range compared.FindAllStringSubmatch(query, -1) {
				bad := regexp.MustCompile(`ORDER BY (\w+\.)?` + column[1] + `\b`).MatchString(query)
				if column[2] == ">" {
					bad = !byKey.MatchString(query) && slices.ContainsFunc(indexed, func(index string) bool {
						table, leads, _ := strings.Cut(index, " ")
						return leads == column[1] && strings.Contains(query, table)
					})
				}
				if bad {
					t.Errorf("%s: %s compares %s with clock_timestamp(): use statement_timestamp()", file[1], strings.Fields(query)[0], column[1])
				}
			}
		}
	}
}
