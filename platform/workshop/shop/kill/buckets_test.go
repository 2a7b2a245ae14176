package kill

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// The tables that have a column bucket, the distributed ones, can be on several whole databases one day, to which the program
// would route by it. These tests keep that possible, see ADR 55: unique and foreign keys include the bucket, unless the foreign
// key is to a table that every server has; there are no triggers; joins compare buckets. Each list of exceptions gives the
// reason, and a test fails if one no longer applies.

// onEveryServer are the tables, small and rarely written, that distributed tables may reference.
var onEveryServer = []string{"orders.stores"}

var schemaExceptions = map[string]string{
	"trigger archive_is_closed on orders.archive": "the table is empty and will be dropped, see ADR 44",
}

func TestKeysIncludeTheBucket(t *testing.T) {
	t.Parallel()
	rows, err := pgtest.DB(t).Query(t.Context(), `
		WITH distributed AS (
			SELECT c.oid, a.attnum, a.atttypid, a.attnotnull FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'bucket'
			WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition)
		SELECT format('column bucket of %s', oid::regclass) FROM distributed WHERE atttypid <> 'smallint'::regtype OR NOT attnotnull
		UNION ALL
		SELECT format('unique key %s', indexrelid::regclass) FROM distributed d JOIN pg_index i ON i.indrelid = d.oid
		WHERE (indisunique OR indisexclusion) AND d.attnum <> ALL ((indkey::int2[])[0:indnkeyatts - 1])
		UNION ALL
		SELECT format('foreign key %s from %s to %s', conname, conrelid::regclass, confrelid::regclass)
		FROM pg_constraint LEFT JOIN distributed d ON d.oid = conrelid LEFT JOIN distributed r ON r.oid = confrelid
		WHERE contype = 'f' AND conparentid = 0 AND CASE
			WHEN d.oid IS NULL THEN r.oid IS NOT NULL
			WHEN r.oid IS NULL THEN confrelid::regclass::text <> ALL ($1)
			ELSE NOT EXISTS (SELECT FROM unnest(conkey, confkey) AS k (here, there) WHERE here = d.attnum AND there = r.attnum) END
		UNION ALL
		SELECT format('trigger %s on %s', tgname, tgrelid::regclass) FROM pg_trigger JOIN distributed d ON d.oid = tgrelid WHERE NOT tgisinternal
		UNION ALL
		SELECT 'not all of the tables that had a bucket in 0.10.0' FROM distributed HAVING count(*) < 12`, onEveryServer)
	require.NoError(t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	requireExceptions(t, schemaExceptions, found)
}

var joinExceptions = map[string]string{
	"orderdb.ForgetUsers":               "joins nothing: five statements about the users in one",
	"paymentdb.CapturesNotPromisedBack": "a check of the books, by way of payments.ledger, which has no bucket",
	"paymentdb.OrdersThatDiffer":        "as CapturesNotPromisedBack",
}

// TestJoinsCompareBuckets plans every query. Of the distributed tables that it reads, one may be read on
// every server; the plan reads each other one by its bucket.
func TestJoinsCompareBuckets(t *testing.T) {
	t.Parallel()
	b := newBuckets(t)
	pgtest.Exec(t, b.conn, "SET plan_cache_mode = force_generic_plan")
	var found []string
	for name, sql := range generatedQueries(t) {
		if strings.HasPrefix(sql, "LOCK ") {
			continue // has no plan
		}
		plan := b.plan(name, sql, "VERBOSE")
		if len(plan.whole) > 1 {
			found = append(found, name)
		}
	}
	requireExceptions(t, joinExceptions, found)
}

// hotPath are the statements of the writer, closing and capture on distributed tables, without the
// plain inserts and the writer's COPY, whose rows carry their bucket.
var hotPath = []string{
	"orderdb.ReadStatuses", "orderdb.LiveOrdersOfUsers",
	"orderdb.ClaimDue", "orderdb.ClaimOrder", "orderdb.GiveBackClaim", "orderdb.StockOfOrders", "orderdb.CloseClaimed", "coupondb.ReturnUses",
	"paymentdb.OpenPayments", "paymentdb.ClosePayment",
	"orderdb.LockOrder", "orderdb.ReadOrder", "paymentdb.OpenPayment", "paymentdb.NoteHandoff",
	"paymentdb.Payment", "paymentdb.RecordCapture", "orderdb.MarkPaid", "orderdb.Retake", "coupondb.SetUse", "paymentdb.CapturePayment",
}

var hotPathExceptions = map[string]string{
	"orderdb.ClaimDue": "asks whose time is up, which no caller knows; each of several servers is asked for its own",
}

// TestHotPathReadsOnlyItsBuckets runs each statement for one bucket: it reads every distributed table by
// bucket, and of orders one partition, whether Postgres plans it for its arguments or for all.
func TestHotPathReadsOnlyItsBuckets(t *testing.T) {
	t.Parallel()
	b, queries := newBuckets(t), generatedQueries(t)
	pretendTenMillionRows(t, b.conn) // of a small table Postgres reads everything
	pgtest.Exec(t, b.conn, `INSERT INTO orders.orders (bucket, order_no, user_id, item_id, activity_id, session_id, epoch, quantity, unit_price, currency, title, status, pay_deadline)
		VALUES (7, '`+numberOf7+`', 7, 7, 7, 7, 7, 1, 7, 'CNY', 'x', 'pending_payment', now())`)
	partition := pgtest.Read[string](t, b.conn, `SELECT tableoid::regclass::text FROM orders.orders WHERE bucket = 7`)
	var found []string
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		pgtest.Exec(t, b.conn, "SET plan_cache_mode = "+mode)
		for _, name := range hotPath {
			pgtest.Exec(t, b.conn, "BEGIN")
			plan := b.plan(name, queries[name], "ANALYZE, VERBOSE")
			pgtest.Exec(t, b.conn, "ROLLBACK")
			elsewhere := slices.DeleteFunc(slices.Collect(maps.Keys(plan.partitions)), func(p string) bool { return p == partition })
			if len(plan.whole)+len(elsewhere) > 0 {
				found = append(found, name)
			}
			if strings.Contains(queries[name], "orders.orders") && !plan.partitions[partition] {
				t.Errorf("%s read nothing of the order's partition, so that this shows nothing", name)
			}
		}
	}
	requireExceptions(t, hotPathExceptions, found)
}

// requireExceptions reports what was found and is no exception, and exceptions that were not found.
func requireExceptions(t *testing.T, exceptions map[string]string, found []string) {
	t.Helper()
	for _, f := range found {
		if exceptions[f] == "" {
			t.Errorf("%s: not possible on a Postgres that distributes by bucket", f)
		}
	}
	for e := range exceptions {
		if !slices.Contains(found, e) {
			t.Errorf("%s: no exception any more, delete it from the list", e)
		}
	}
}

// buckets plans queries on a connection to a database of its own.
type buckets struct {
	t           *testing.T
	conn        *pgx.Conn
	distributed []string
}

func newBuckets(t *testing.T) *buckets {
	t.Helper()
	conn := pgtest.Connect(t, pgtest.DatabaseURL(t))
	return &buckets{t, conn, pgtest.Read[[]string](t, conn, `SELECT array_agg(attrelid::regclass::text) FROM pg_attribute WHERE attname = 'bucket'`)}
}

// bucketPlan has the distributed tables, by name and alias, that a query does not read by their bucket,
// and the partitions of orders that it read, if it was run.
type bucketPlan struct {
	whole, partitions map[string]bool
}

// numberOf7 is the number in every argument, and each other argument is 7 or of no meaning.
const numberOf7 = "00000000-0000-0000-0000-000000000007"

var (
	// numbered is the end of the name of a partition, and of its alias.
	numbered  = regexp.MustCompile(`_\d+$`)
	condition = regexp.MustCompile(`"[\w ]*(Cond|Filter)": ".*"`)
)

func (b *buckets) plan(name, sql, options string) bucketPlan {
	b.t.Helper()
	require.NoError(b.t, b.conn.DeallocateAll(b.t.Context()))
	if _, err := b.conn.Exec(b.t.Context(), "PREPARE q AS "+sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		b.t.Fatalf("%s: %v", name, err)
	}
	args := pgtest.Read[string](b.t, b.conn, `SELECT coalesce('(' || string_agg(format(CASE WHEN a::text LIKE '%[]' THEN 'ARRAY[%s]::%s' ELSE '%s::%s' END, v, a), ', ' ORDER BY n) || ')', '')
		FROM pg_prepared_statements, unnest(parameter_types) WITH ORDINALITY AS p (a, n), LATERAL (SELECT CASE rtrim(a::text, '[]')
			WHEN 'uuid' THEN '''`+numberOf7+`''' WHEN 'jsonb' THEN '''{}''' WHEN 'boolean' THEN 'true' WHEN 'text' THEN '''x''' WHEN 'bytea' THEN '''x''' WHEN 'inet' THEN '''::7'''
			WHEN 'timestamp with time zone' THEN '''2099-01-01''' WHEN 'date' THEN '''2099-01-01''' WHEN 'interval' THEN '''1 s''' ELSE '7' END) AS x (v) WHERE name = 'q'`)
	var raw string
	if err := b.conn.QueryRow(b.t.Context(), "EXPLAIN ("+options+", FORMAT JSON) EXECUTE q"+args, pgx.QueryExecModeSimpleProtocol).Scan(&raw); err != nil {
		b.t.Fatalf("%s%s: %v", name, args, err)
	}
	var plans []struct{ Plan planNode }
	require.NoError(b.t, json.Unmarshal([]byte(raw), &plans))
	plan, conditions := bucketPlan{map[string]bool{}, map[string]bool{}}, strings.Join(condition.FindAllString(raw, -1), "\n")
	plans[0].Plan.each(func(n *planNode) {
		table, alias := n.Schema+"."+n.Relation, numbered.ReplaceAllString(n.Alias, "")
		if !strings.HasSuffix(n.Type, "Scan") || !slices.Contains(b.distributed, table) {
			return
		}
		// A join of all partitions names the table instead of each.
		by := regexp.MustCompile(`\b(` + n.Alias + `|` + alias + `)\.bucket = | = (` + n.Alias + `|` + alias + `)\.bucket\b`)
		if !by.MatchString(conditions) {
			plan.whole[numbered.ReplaceAllString(table, "")+" "+alias] = true
		}
		if n.Loops > 0 && numbered.MatchString(table) {
			plan.partitions[table] = true
		}
	})
	return plan
}
