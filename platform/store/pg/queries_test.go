package pg

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"stampede/platform/workshop/require"
)

// What is older than now is found by an index only if now is stable: where a query compares the column that it orders by
// with clock_timestamp(), which is volatile, Postgres reads every row that is younger.
func TestQueriesFindWhatIsDueByTheirIndex(t *testing.T) {
	t.Parallel()
	config, err := os.ReadFile("sqlc.yaml")
	require.NoError(t, err)
	files := regexp.MustCompile(`queries: (\S+)`).FindAllSubmatch(config, -1)
	if len(files) < 30 {
		t.Fatalf("sqlc.yaml names %d files of queries", len(files))
	}
	compared := regexp.MustCompile(`(\w+) <=? clock_timestamp\(\)`)
	for _, file := range files {
		raw, err := os.ReadFile(string(file[1]))
		require.NoError(t, err)
		for query := range strings.SplitSeq(string(raw), "-- name: ") {
			for _, column := range compared.FindAllStringSubmatch(query, -1) {
				if regexp.MustCompile(`ORDER BY (\w+\.)?` + column[1] + `\b`).MatchString(query) {
					t.Errorf("%s: %s compares %s with clock_timestamp(): use statement_timestamp()", file[1], strings.Fields(query)[0], column[1])
				}
			}
		}
	}
}
