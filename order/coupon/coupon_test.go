package coupon

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"stampede/order/coupon/internal/coupondb"
	"stampede/order/couponevent"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// shop is the coupons behind their routes.
type shop struct {
	*Service
	t      *testing.T
	db     *pgxpool.Pool
	router *httpx.Router
	tokens *auth.Tokens
	order  orderevent.Order // the only order there is
}

func setup(t *testing.T) *shop {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s := &shop{t: t, db: pgtest.DB(t), tokens: auth.NewTokens([]byte(strings.Repeat("k", auth.MinKeyBytes)), time.Now)}
	s.router = httpx.NewRouter(s.tokens, log, "test", prometheus.NewRegistry())
	reading := func(ctx context.Context) (context.Context, func(), error) { return ctx, func() {}, nil }
	s.Service = New(s.db, reading, func(_ context.Context, no ids.ID, user int64) (orderevent.Order, error) {
		if s.order.No != no || s.order.UserID != user {
			return orderevent.Order{}, fault.Plain(fault.NotFound, fault.Text{})
		}
		return s.order, nil
	}, s)
	s.Routes(s.router)
	return s
}

const noUser = 13800138000 // a phone

// Unknown knows everybody but one.
func (s *shop) Unknown(_ context.Context, users []int64) (unknown []int64, err error) {
	if slices.Contains(users, noUser) {
		unknown = []int64{noUser}
	}
	return unknown, nil
}

// ask sends a request as a user and returns the status with the code of a problem,
// and the answer.
func (s *shop) ask(user int64, role auth.Role, method, path, body string, header ...string) (string, map[string]any) {
	s.t.Helper()
	token := httpxtest.Token(s.t, s.tokens, auth.Principal{UserID: user, Role: role})
	a := httpxtest.Ask(s.t, s.router, token, method, "/api/v1/"+path, body, header...)
	status := fmt.Sprint(a.Status)
	if code, ok := a.Doc["code"].(string); ok {
		status += " " + code
	}
	return status, a.Doc
}

// must is ask, and requires the status.
func (s *shop) must(want string, user int64, role auth.Role, method, path, body string, header ...string) map[string]any {
	s.t.Helper()
	got, doc := s.ask(user, role, method, path, body, header...)
	if got != want {
		s.t.Errorf("%s %s %.200s: %s, want %s: %v", method, path, body, got, want, doc)
	}
	return doc
}

// kind creates a kind and activates it; terms replace the usual ones.
func (s *shop) kind(terms string) (id string) {
	s.t.Helper()
	id = s.must("201", 9, auth.Operator, http.MethodPost, "admin/coupons", terms)["id"].(string)
	s.must("200", 9, auth.Operator, http.MethodPost, "admin/coupons/"+id+"/activate", "")
	return id
}

// terms are ten yuan off from a hundred, changed by members of the same JSON.
func terms(change string) string {
	doc := map[string]any{}
	for _, raw := range []string{`{"name":"满100减10","amount_off":{"amount":1000,"currency":"CNY"},"threshold":{"amount":10000,"currency":"CNY"},"valid_days":7,"total":100}`, "{" + change + "}"} {
		if err := json.Unmarshal([]byte(raw), &doc); err != nil {
			panic(err)
		}
	}
	for name, v := range doc {
		if v == nil {
			delete(doc, name)
		}
	}
	raw, _ := json.Marshal(doc)
	return string(raw)
}

// around is a span of time that contains the present.
func around(from, until string) string {
	at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	return fmt.Sprintf(`%q:%q,%q:%q`, from, at(-time.Hour), until, at(time.Hour))
}

func (s *shop) count(sql string, args ...any) int {
	s.t.Helper()
	return pgtest.Read[int](s.t, s.db, sql, args...)
}

// told counts the coupons in the events of a subject.
func (s *shop) told(subject string) int {
	s.t.Helper()
	return s.count(`SELECT coalesce(sum(jsonb_array_length(convert_from(payload, 'UTF8')::jsonb->'coupons')), 0)::int FROM platform.outbox WHERE subject = $1`, subject)
}

func (s *shop) violations() (list []string) {
	s.t.Helper()
	found, err := s.Check().Run(s.t.Context())
	require.NoError(s.t, err)
	for _, v := range found {
		list = append(list, v.Subject+": "+v.Detail)
	}
	return list
}

// However many claims run concurrently, a kind issues exactly its total and a user gets
// exactly the most a user may have.
func TestConcurrentClaimsKeepToTotalAndPerUser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for range 4 {
		users, total, perUser := 1+rand.IntN(12), 1+rand.IntN(20), 1+rand.IntN(3)
		id := s.kind(terms(fmt.Sprintf(`%s,"total":%d,"per_user":%d`, around("claim_from", "claim_until"), total, perUser)))
		var all sync.WaitGroup
		var claimed atomic.Int64
		for user := range users { // one after the other, so that claims of one user meet
			for range perUser + 2 {
				all.Go(func() {
					got := "503"
					for strings.HasPrefix(got, "503") && t.Context().Err() == nil {
						got, _ = s.ask(int64(user)+1, auth.Shopper, http.MethodPost, "coupons/"+id+"/claim", "")
					}
					switch got {
					case "201":
						claimed.Add(1)
					case "409 coupon-limit", "409 coupons-gone":
					default:
						t.Errorf("claim: %s", got)
					}
				})
			}
		}
		all.Wait()
		want := min(total, users*perUser)
		if n := s.count(`SELECT count(*) FROM orders.coupons WHERE kind_id = $1`, id); n != want || int(claimed.Load()) != want {
			t.Errorf("%d users, %d each, %d in all: %d were issued and %d answered, want %d", users, perUser, total, n, claimed.Load(), want)
		}
		if n := s.count(`SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM orders.coupons WHERE kind_id = $1 GROUP BY user_id) x`, id); n > perUser {
			t.Errorf("a user has %d coupons, the most is %d", n, perUser)
		}
	}
	require.Equal(t, "coupons in events", s.told(couponevent.SubjectIssued), s.count(`SELECT count(*) FROM orders.coupons`))
	require.Equal(t, "violations", s.violations(), nil)
}

func TestClaimIsRefusedOutsideItsRules(t *testing.T) {
	t.Parallel()
	s := setup(t)
	window := around("claim_from", "claim_until")
	past, future := `"claim_from":"2020-01-01T00:00:00Z","claim_until":"2020-01-02T00:00:00Z"`, `"claim_from":"2190-01-01T00:00:00Z","claim_until":"2190-01-02T00:00:00Z"`
	claim := func(want, id string, header ...string) map[string]any {
		t.Helper()
		return s.must(want, 5, auth.Shopper, http.MethodPost, "coupons/"+id+"/claim", "", header...)
	}
	claim("404 not-found", "999")
	claim("404 not-found", s.must("201", 9, auth.Operator, http.MethodPost, "admin/coupons", terms(window))["id"].(string))
	claim("409 coupon-not-claimable", s.kind(terms(past)))
	claim("409 coupon-not-claimable", s.kind(terms(future)))
	claim("409 coupon-not-claimable", s.kind(terms("")))
	claim("409 coupon-not-claimable", s.kind(terms(window+`,"valid_days":null,"valid_from":"2020-01-01T00:00:00Z","valid_until":"2020-01-02T00:00:00Z"`)))
	id := s.kind(terms(window + `,"per_user":2`))
	first := claim("201", id, "Idempotency-Key", "one")
	require.Equal(t, "the coupon of a repetition", claim("201", id, "Idempotency-Key", "one")["coupon_no"], first["coupon_no"])
	s.must("200", 9, auth.Operator, http.MethodPost, "admin/coupons/"+id+"/stop", "")
	claim("409 coupon-not-claimable", id)
	s.must("200", 9, auth.Operator, http.MethodPost, "admin/coupons/"+id+"/activate", "")
	claim("201", id)
	claim("409 coupon-limit", id)
	require.Equal(t, "coupons available", len(s.must("200", 5, auth.Shopper, http.MethodGet, "coupons?status=available", "")["data"].([]any)), 2)
	open := s.must("200", 5, auth.Shopper, http.MethodGet, "coupons/claimable", "")["data"].([]any)
	if len(open) != 2 || open[0].(map[string]any)["kind_id"] != id { // and the one of the future
		t.Errorf("%v", open)
	}
}

// An issue reaches all of its users or none, and repeating it changes nothing.
func TestIssuesAreWholeAndIdempotent(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id := s.kind(terms(`"total":10,"per_user":3`))
	issue := func(want, users string, each int) any {
		t.Helper()
		return s.must(want, 9, auth.Operator, http.MethodPost, "admin/coupons/"+id+"/issue", fmt.Sprintf(`{"user_ids":[%s],"each":%d}`, users, each))["issued"]
	}
	require.Equal(t, "issued", issue("200", `"1","2","2","3"`, 1), 3.0)
	require.Equal(t, "issued by a repetition", issue("200", `"1","2","3"`, 1), 0.0)
	require.Equal(t, "issued to make three each", issue("200", `"1","2"`, 3), 4.0)
	issue("409 coupons-gone", `"4","5","6","7"`, 1) // three are left
	issue("422 invalid", `"4"`, 4)
	issue("422 invalid", `"x"`, 1)
	list := fmt.Sprintf(`{"user_ids":["4","%d"]`, noUser)
	status, refused := s.ask(9, auth.Operator, http.MethodPost, "admin/coupons/"+id+"/issue", list+"}")
	if says := fmt.Sprint(refused["errors"]); status != "422 invalid" || !strings.Contains(says, "body.user_ids[1]") || !strings.Contains(says, "No account has the number 13800138000; a guest") {
		t.Errorf("to a phone: %s %v", status, refused)
	}
	issue("422 invalid", ``, 1)
	require.Equal(t, "coupons, and those in events", []int{s.count(`SELECT count(*) FROM orders.coupons`), s.told(couponevent.SubjectIssued)}, []int{7, 7})
	many := make([]string, maxIssue)
	for i := range many {
		many[i] = fmt.Sprintf(`"%d"`, 9_007_199_254_740_993+i)
	}
	id = s.kind(terms(`"total":10000,"per_user":2`))
	require.Equal(t, "issued", issue("200", strings.Join(many, ","), 1), 10_000.0)
	require.Equal(t, "coupons in events", s.told(couponevent.SubjectIssued), 10_007)
	issue("422 invalid", strings.Join(many, ","), 2)
	s.must("200", 9, auth.Operator, http.MethodPost, "admin/coupons/"+id+"/stop", "")
	issue("409 coupon-not-active", `"1"`, 1)
	id = "999"
	issue("404 not-found", `"1"`, 1)
	require.Equal(t, "issues in the audit log, which issued something", s.count(`SELECT count(*) FROM platform.audit WHERE action = 'coupon.issue'`), 3)
	require.Equal(t, "violations", s.violations(), nil)
}

func TestTermsAreCheckedAndFixedOnceActive(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, change := range []string{
		`"amount_off":null`, `"percent_off":5`, `"name":" "`, `"name":""`, `"threshold":{"amount":-1,"currency":"CNY"}`, `"threshold":{"amount":1,"currency":"cny"}`,
		`"amount_off":{"amount":0,"currency":"CNY"}`, `"amount_off":{"amount":10,"currency":"USD"}`, `"max_off":{"amount":10,"currency":"CNY"}`,
		`"valid_days":null`, `"valid_days":0`, `"valid_from":"2026-01-01T00:00:00Z"`, around("valid_from", "valid_until"), around("valid_until", "valid_from") + `,"valid_days":null`,
		`"claim_from":"2026-01-01T00:00:00Z"`, around("claim_until", "claim_from"), `"item_ids":["x"]`, `"total":0`, `"per_user":101`, `"percent_off":101,"amount_off":null`,
	} {
		s.must("422 invalid", 9, auth.Operator, http.MethodPost, "admin/coupons", terms(change))
	}
	percent := terms(around("valid_from", "valid_until") + `,"amount_off":null,"percent_off":20,"max_off":{"amount":500,"currency":"CNY"},"valid_days":null,"item_ids":["7"],"activity_ids":["8","9"]`)
	made := s.must("201", 9, auth.Operator, http.MethodPost, "admin/coupons", percent, "Idempotency-Key", "k")
	again := s.must("201", 9, auth.Operator, http.MethodPost, "admin/coupons", percent, "Idempotency-Key", "k")
	require.Equal(t, "the coupon of a repetition", again["id"], made["id"])
	path := "admin/coupons/" + made["id"].(string)
	edit := func(want string, version any, change string) {
		t.Helper()
		doc := map[string]any{}
		for _, raw := range []string{percent, fmt.Sprintf(`{"version":%v}`, version), "{" + change + "}"} {
			require.NoError(t, json.Unmarshal([]byte(raw), &doc))
		}
		raw, _ := json.Marshal(doc)
		s.must(want, 9, auth.Operator, http.MethodPut, path, string(raw))
	}
	s.must("409 coupon-not-active", 9, auth.Operator, http.MethodPost, path+"/stop", "")
	edit("200", 1, `"percent_off":10`)
	edit("409 stale-version", 1, `"percent_off":30`)
	edit("200", 2, `"percent_off":20,"per_user":2`)
	s.must("200", 9, auth.Operator, http.MethodPost, path+"/activate", "")
	s.must("200", 9, auth.Operator, http.MethodPost, path+"/activate", "")
	s.must("200", 9, auth.Operator, http.MethodPost, path+"/issue", `{"user_ids":["1","2"],"each":1}`)
	for _, change := range []string{`"percent_off":30`, `"max_off":{"amount":501,"currency":"CNY"}`, `"threshold":{"amount":1,"currency":"CNY"}`, `"item_ids":[]`, `"valid_from":"2025-01-01T00:00:00Z"`} {
		edit("409 coupon-terms-fixed", 4, change+`,"per_user":2`)
	}
	edit("422 invalid", 4, `"total":1,"per_user":2`)
	edit("422 invalid", 4, `"per_user":1`)
	edit("200", 4, `"total":2,"per_user":3,"name":"另一个名称"`)
	s.must("409 coupon-terms-fixed", 9, auth.Operator, http.MethodDelete, path, "")
	s.must("403 forbidden", 5, auth.Shopper, http.MethodGet, path, "")
	s.must("403 forbidden", 9, auth.Viewer, http.MethodPost, path+"/stop", "")
	kind := s.must("200", 9, auth.Viewer, http.MethodGet, path, "")
	got := []any{kind["name"], kind["issued"], kind["version"], kind["used"]}
	require.Equal(t, "name, issued, version and used", got, []any{"另一个名称", 2.0, 5.0, 0.0})
	other := s.must("201", 9, auth.Operator, http.MethodPost, "admin/coupons", terms(""))["id"].(string)
	list := s.must("200", 9, auth.Viewer, http.MethodGet, "admin/coupons?limit=1", "")
	first := list["data"].([]any)[0].(map[string]any)["id"]
	require.Equal(t, "the first of the list, and its cursor", []any{first, list["next_cursor"]}, []any{other, other})
	s.must("204", 9, auth.Operator, http.MethodDelete, "admin/coupons/"+other, "")
	s.must("404 not-found", 9, auth.Viewer, http.MethodGet, "admin/coupons/"+other, "")
}

// A discount is rounded down, and is never more than the goods or the most.
func TestDiscount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k     coupondb.OrdersCouponKind
		goods int64
		want  int64
	}{
		{coupondb.OrdersCouponKind{AmountOff: 1000}, 9900, 1000},
		{coupondb.OrdersCouponKind{AmountOff: 1000}, 999, 999},
		{coupondb.OrdersCouponKind{PercentOff: 15}, 9999, 1499},
		{coupondb.OrdersCouponKind{PercentOff: 15, MaxOff: 1000}, 9999, 1000},
		{coupondb.OrdersCouponKind{PercentOff: 1}, 99, 0},
		{coupondb.OrdersCouponKind{PercentOff: 100}, 1 << 62, 1 << 62},
	} {
		require.Equal(t, fmt.Sprintf("%d %d %d off %d", c.k.AmountOff, c.k.PercentOff, c.k.MaxOff, c.goods), discount(&c.k, c.goods), c.want)
	}
	rapid.Check(t, func(t *rapid.T) {
		goods, percent := rapid.Int64Range(0, 1<<50).Draw(t, "goods"), rapid.Int16Range(1, 100).Draw(t, "percent")
		off := discount(&coupondb.OrdersCouponKind{PercentOff: percent}, goods)
		if off*100 > goods*int64(percent) || (off+1)*100 <= goods*int64(percent) {
			t.Errorf("%d %% of %d is %d", percent, goods, off)
		}
	})
}

func TestCheckFindsCouponsThatDoNotAgree(t *testing.T) {
	t.Parallel()
	s := setup(t)
	id := s.kind(terms(`"per_user":2`))
	s.must("200", 9, auth.Operator, http.MethodPost, "admin/coupons/"+id+"/issue", `{"user_ids":["1"]}`)
	orders := map[string]ids.ID{}
	for name, o := range map[string]struct {
		status   string
		discount int
		use      string
	}{
		"agrees": {"pending_payment", 5, "locked"}, "agrees too": {"paid", 5, "borne"}, "closed": {"closed", 5, "returned"}, "without": {"paid", 0, ""},
		"bare": {"pending_payment", 5, ""}, "unpaid": {"pending_payment", 5, "used"}, "paid": {"paid", 5, "locked"}, "kept": {"closed", 5, "used"},
		"other": {"completed", 6, "used"}, "gone": {"refunded", 5, "used"}, "no discount": {"pending_payment", 0, "locked"},
	} {
		orders[name] = ids.NewFor(1)
		s.exec(`INSERT INTO orders.orders (bucket, order_no, user_id, item_id, activity_id, session_id, epoch, quantity, unit_price, discount, currency, title, status, pay_deadline)
			SELECT $1, $2, 1, count(*), 1, 1, 1, 1, 100, $3, 'CNY', 'x', $4, now() FROM orders.orders`, orders[name].Bucket(), orders[name], o.discount, o.status)
		if o.use != "" {
			s.must("200", 9, auth.Operator, http.MethodPost, "admin/coupons/"+s.kind(terms(""))+"/issue", `{"user_ids":["1"]}`)
			s.exec(`INSERT INTO orders.coupon_uses (bucket, order_no, coupon_no, kind_id, discount, status)
				SELECT bucket, $1, coupon_no, kind_id, 5, $2 FROM orders.coupons ORDER BY coupon_no DESC LIMIT 1`, orders[name], o.use)
		}
	}
	found := s.violations()
	for _, wrong := range []string{"bare", "unpaid", "paid", "kept", "other", "gone", "no discount"} {
		if !slices.ContainsFunc(found, func(v string) bool { return strings.HasPrefix(v, "order "+orders[wrong].String()+": it is ") }) {
			t.Errorf("no violation about %q", wrong)
		}
	}
	if len(found) != 7 {
		t.Errorf("%d violations: %q", len(found), found)
	}
	s.exec(`UPDATE orders.coupon_kinds SET issued = issued + 1 WHERE id = $1`, id)
	s.exec(`DROP INDEX orders.one_order_per_coupon`)
	s.exec(`INSERT INTO orders.coupon_uses (bucket, order_no, coupon_no, kind_id, discount, status)
		SELECT bucket, gen_random_uuid(), coupon_no, kind_id, 5, 'locked' FROM orders.coupons CROSS JOIN generate_series(1, 2) WHERE kind_id = $1`, id)
	all := strings.Join(s.violations(), "\n")
	for _, want := range []string{"coupon " + id + ": it counts 2 issued coupons of 100; there are 1", "it takes money off 2 orders", "was never issued to its user"} {
		if !strings.Contains(all, want) {
			t.Errorf("no violation says %q: %s", want, all)
		}
	}
}

func (s *shop) exec(sql string, args ...any) {
	s.t.Helper()
	pgtest.Exec(s.t, s.db, sql, args...)
}
