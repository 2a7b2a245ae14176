package kill

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// Arguments that begin a list.
const (
	lastNo   = `'ffffffff-ffff-ffff-ffff-ffffffffffff'`
	zeroNo   = `'00000000-0000-0000-0000-000000000000'`
	anyTime  = `'1970-01-01', '9999-01-01'`
	pageRows = `51`
)

// listQueries are the queries of the routes that list, with the arguments of a page without a filter and of one with each.
// sqlc's files have their order. Not here are queries by numbers that the request names, and a user's coupons,
// which are few.
var listQueries = map[string][]string{
	"orderdb.OrdersOfUser":        {`7, 7, ` + lastNo + `, ` + pageRows},
	"searchdb.ByNumber":           {lastNo + `, ` + zeroNo + `, ` + pageRows},
	"searchdb.ByUser":             {`7, 7, ` + lastNo + `, ` + zeroNo + `, ` + pageRows},
	"searchdb.ByStatus":           {`'refunded', ` + lastNo + `, ` + zeroNo + `, ` + pageRows},
	"searchdb.ByDeadline":         {`'9999-01-01', ` + lastNo + `, ` + pageRows},
	"searchdb.ByChange":           {`'9999-01-01', ` + lastNo + `, '1970-01-01', ` + pageRows},
	"searchdb.ByPayment":          {`'9999-01-01', ` + lastNo + `, '1970-01-01', ` + pageRows},
	"disputedb.ListDisputes":      {lastNo + `, '', ` + pageRows, lastNo + `, 'open', ` + pageRows},
	"disputedb.DisputesOfOrder":   {zeroNo},
	"storesdb.Stores":             {`false, 0, ` + pageRows},
	"pointsdb.EntriesOfUser":      {`7, 7, ` + lastNo + `, ` + pageRows},
	"paymentdb.ListRefunds":       {lastNo + `, ` + pageRows},
	"paymentdb.RefundsWithStatus": {`'failed', ` + lastNo + `, ` + pageRows},
	"seckilldb.Activities":        {`0, '', ` + pageRows},
	"seckilldb.Sessions":          {`0, 0, ` + pageRows, `0, 7, ` + pageRows},
	"seckilldb.Items":             {`0, 0, 0, ` + pageRows, `0, 7, 0, ` + pageRows},
	"seckilldb.ReservationsOf":    {`7, 0, ` + pageRows},
	"riskdb.Rules":                {`0, ` + pageRows},
	"riskdb.Decisions":            {`0, 0, 0, ` + pageRows, `7, 0, 0, ` + pageRows, `0, 7, 0, ` + pageRows},
	"accountdb.ListUsers": {
		`100, NULL, NULL, NULL, NULL, ` + pageRows, `100, 7, NULL, NULL, NULL, ` + pageRows, `100, NULL, '+8613800138000', NULL, NULL, ` + pageRows,
		`100, NULL, NULL, 'operator', NULL, ` + pageRows, `100, NULL, NULL, NULL, 'disabled', ` + pageRows,
		`100, NULL, NULL, NULL, 'erased', ` + pageRows,
	},
	"accountdb.ListNotices":     {`7, ` + pageRows},
	"blacklistdb.Entries":       {`'', '', false, 0, ` + pageRows, `'phone', '+8613800138000', false, 0, ` + pageRows},
	"auditdb.Actions":           {`'', '', 0, 0, ` + pageRows, `'item 7', '', 0, 0, ` + pageRows, `'', 'item.pause', 0, 0, ` + pageRows, `'', '', 7, 0, ` + pageRows},
	"deadlettersdb.DeadLetters": {`'', true, ` + zeroNo + `, ` + pageRows, `'order-writer', true, ` + zeroNo + `, ` + pageRows},
	"alarmdb.Alarms":            {`false, '', '', NULL, 0, ` + pageRows},
	"runsdb.Runs":               {`0, ` + pageRows},
	"outboxdb.UnsentMessages":   {lastNo + `, '', ` + anyTime + `, ` + pageRows},
	"outboxdb.RefusedMessages":  {`true, ` + lastNo + `, '', ` + anyTime + `, ` + pageRows},
	"outboxdb.SentMessages":     {`'9999-01-01', ` + lastNo + `, '', ` + anyTime + `, '1970-01-01', '9999-01-01', ` + pageRows},
}

// passes are conditions that a walk may check row by row: nearly every row that the index gives passes them, or it gives
// only what one person has.
var passes = regexp.MustCompile(`^\((status <> 'pending_payment'|bucket = |ROW\(|id < )|created_at >= |failed_at IS NOT NULL|sent_at IS NOT NULL`)

// TestListsWalkAnIndex plans the query of every list against tables of ten million rows: each reads an index in the order of
// the list, as far as its page needs, and scans and sorts nothing.
func TestListsWalkAnIndex(t *testing.T) {
	t.Parallel()
	pool, err := pgtest.DB(t).Acquire(t.Context())
	require.NoError(t, err)
	defer pool.Release()
	conn := pool.Conn()
	pretendTenMillionRows(t, conn)
	queries := generatedQueries(t)
	for name, calls := range listQueries {
		sql, ok := queries[name]
		if !ok {
			t.Errorf("there is no query %s", name)
			continue
		}
		for _, args := range calls {
			plan, err := explain(t, conn, sql, args)
			if err != nil {
				t.Errorf("%s(%s): %v", name, args, err)
				continue
			}
			plan.each(func(n *planNode) {
				filtered := n.Filter != "" && n.Type != "Subquery Scan" && !passes.MatchString(n.Filter)
				if n.Type == "Seq Scan" || n.Type == "Aggregate" || n.Type == "Sort" && n.Rows > 1000 || filtered {
					t.Errorf("%s(%s): %s on %s %s %s", name, args, n.Type, n.Relation, n.Index, n.Filter)
				}
			})
		}
	}
}

// planNode is what a node of a plan in JSON says that matters here.
type planNode struct {
	Type     string     `json:"Node Type"`
	Schema   string     `json:"Schema"` // with VERBOSE
	Relation string     `json:"Relation Name"`
	Alias    string     `json:"Alias"`
	Index    string     `json:"Index Name"`
	Filter   string     `json:"Filter"`
	Rows     float64    `json:"Plan Rows"`
	Loops    float64    `json:"Actual Loops"` // with ANALYZE
	Plans    []planNode `json:"Plans"`
}

func (n *planNode) each(do func(*planNode)) {
	do(n)
	for i := range n.Plans {
		n.Plans[i].each(do)
	}
}

// explain plans a query for its arguments, as it is planned for a caller.
func explain(t *testing.T, conn *pgx.Conn, sql, args string) (*planNode, error) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), "SET plan_cache_mode = force_custom_plan; SET enable_seqscan = off; SET enable_bitmapscan = off; DEALLOCATE ALL; PREPARE q AS "+sql); err != nil {
		return nil, err
	}
	var raw string
	if err := conn.QueryRow(t.Context(), "EXPLAIN (FORMAT JSON) EXECUTE q("+args+")", pgx.QueryExecModeSimpleProtocol).Scan(&raw); err != nil {
		return nil, err
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal([]byte(raw), &plans); err != nil {
		return nil, err
	}
	return &plans[0].Plan, nil
}

// generatedQueries are the statements in sqlc's files, by package and name.
func generatedQueries(t *testing.T) map[string]string {
	t.Helper()
	query := regexp.MustCompile("(?s)const \\w+ = `-- name: (\\w+) :\\w+\n(.*?)`")
	queries := make(map[string]string)
	for _, pattern := range []string{"*/internal/*db", "*/*/internal/*db", "*/*/*/internal/*db", "*/*/*/*/internal/*db"} {
		dirs, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, dir := range dirs {
			text, err := os.ReadFile(filepath.Join(dir, "queries.sql.go"))
			require.NoError(t, err)
			for _, m := range query.FindAllStringSubmatch(string(text), -1) {
				queries[filepath.Base(dir)+"."+m[1]] = m[2]
			}
		}
	}
	return queries
}

// pretendTenMillionRows gives each table one row, without which the planner takes it for empty, and statistics that say
// ten million rows to a page. The database is the test's own.
func pretendTenMillionRows(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), `
		SET session_replication_role = replica; -- no foreign keys, no triggers
		DO $$
		DECLARE
			c record;
			r regclass;
		BEGIN
			FOR c IN SELECT conrelid::regclass AS r, conname FROM pg_constraint WHERE contype = 'c' AND conislocal AND coninhcount = 0 AND conrelid <> 0
				AND connamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema') LOOP
				EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.r, c.conname);
			END LOOP;
			FOR r IN SELECT oid::regclass FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition AND oid <> 'orders.archive'::regclass
				AND relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema') LOOP
				EXECUTE (SELECT format('INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE VALUES (%s)', r, string_agg(quote_ident(a.attname), ','), string_agg(CASE
					WHEN t.typname = 'uuid' THEN 'orders.first_number(now())' WHEN t.typcategory = 'D' THEN 'now()'
					WHEN t.typname = 'bool' THEN 'false' WHEN t.typcategory = 'N' THEN '0' WHEN t.typcategory = 'A' OR t.typname = 'jsonb' THEN '''{}''' ELSE '''''' END, ','))
					FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid WHERE a.attrelid = r AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND a.attnotnull);
			END LOOP;
		END $$;
		UPDATE pg_class SET relpages = 1, reltuples = 1e7 WHERE relkind = 'r' AND relnamespace::regnamespace::text NOT IN ('pg_catalog', 'information_schema')`); err != nil {
		t.Fatal(err)
	}
}
