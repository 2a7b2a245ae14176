package contract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
)

// unanswered are operations that cannot succeed in the story, with the reason.
var unanswered = map[string]string{
	"POST /api/v1/auth/login/wechat":                    "no WeChat app is configured",
	"POST /api/v1/auth/wechat/state":                    "no WeChat app is configured",
	"POST /api/v1/me/phone":                             "the story's account already has a phone",
	"POST /api/v1/me/wechat":                            "no WeChat app is configured",
	"GET /api/v1/ws":                                    "a WebSocket is not an HTTP answer; notify's tests cover it",
	"GET /api/v1/sse":                                   "a stream without an end; notify's tests cover it",
	"GET /api/v1/admin/items/{id}/funnel/live":          "a stream that lasts minutes; seckill's tests cover it",
	"GET /api/v1/admin/activities/{id}/war-room/live":   "a stream that lasts minutes; seckill's tests cover it",
	"POST /api/v1/admin/refunds/{no}/end-by-chargeback": "the story's shop has lost no chargeback; payment's tests cover it",
	"POST /api/v1/admin/shopper-message-texts/{kind}/{channel}/{language}/test": "the story's operator has no phone; notify's tests cover it",
	"POST /api/v1/auth/exchange":                     "the story's shop has no issuer of its own; exchange's tests cover it",
	"POST /api/v1/auth/backchannel-logout":           "the same",
	"POST /api/v1/payments/{provider}/refund-notify": "the sandbox bank sends all notifications to the other address",
	"POST /api/v1/payments/{provider}/notify":        "the bank calls it with its own client",
}

// story is a server whose every answer is checked against the OpenAPI document.
type story struct {
	*shop.Instance
	db                *pgxpool.Pool
	phones            *shop.SMSGateway
	operator, admin   string
	activity, session string // tomorrow's sale, which can be reserved
	item              string
	narrowed          map[string]bool // lists that narrow has checked
}

// TestEveryAnswerIsAsDocumented calls each operation of the document as
// operators and shoppers do, including their usual refusals. The transport
// checks the answers.
func TestEveryAnswerIsAsDocumented(t *testing.T) {
	t.Parallel()
	s := &story{db: pgtest.DB(t), phones: shop.NewSMSGateway(t), operator: shop.Mint(t, 1, auth.Operator), admin: shop.Mint(t, 2, auth.Admin), narrowed: map[string]bool{}}
	s.Instance = shop.Serve(t, s.db.Config().ConnString(), pgtest.RedisURL(t),
		"--sms-gateway-url="+s.phones.Server.URL, "--sms-gateway-secret="+shop.Key, "--sms-per-phone-hour=0", "--sms-per-phone-day=0", "--sms-per-address=0", "--login-per-phone=0",
		"--auth-human-check=none", "--refund-approval-above=1", "--alarm-webhook-url="+s.phones.Server.URL, "--alarm-webhook-secret="+shop.Key)
	s.plans(t)
	s.sells(t)
	s.operates(t)
	s.tellsSystems(t)
	s.tellsShoppers(t)
	s.settlesDays(t)
	s.knowsPeople(t)

	doc, err := shop.Documented()
	require.NoError(t, err)
	s.everyChangeIsAudited(t, doc)
	s.everyListHasChanges(t, doc)
	succeeded := doc.Succeeded(t.Name())
	for route, methods := range doc.At("paths") {
		for method := range methods.(map[string]any) {
			operation := strings.ToUpper(method) + " " + route
			if seen := succeeded[operation]; seen == (unanswered[operation] != "") {
				t.Errorf("%s: success seen is %v; make the story call it, or correct unanswered", operation, seen)
			}
		}
	}
}

// ask sends a request and fails unless the answer has the status. It returns
// nil for a body that is not a JSON object.
func (s *story) ask(t *testing.T, method, path, token, body string, want int, headers ...string) map[string]any {
	t.Helper()
	a := shop.Exchange(t, method, s.URL+"/api/v1/"+path, token, body, headers...)
	if a.Status != want {
		t.Errorf("%s %s: %d, want %d: %.600s", method, path, a.Status, want, a.Raw)
	}
	return a.Doc
}

func (s *story) get(t *testing.T, path, token string, want int) map[string]any {
	t.Helper()
	answer := s.ask(t, http.MethodGet, path, token, "", want)
	if rows, _ := answer["data"].([]any); len(rows) > 0 {
		s.narrow(t, path, token)
	}
	return answer
}

func (s *story) post(t *testing.T, path, token, body string, want int) map[string]any {
	t.Helper()
	return s.ask(t, http.MethodPost, path, token, body, want)
}

func text(doc map[string]any, member string) string {
	s, _ := doc[member].(string)
	return s
}

const product = `"sku":%q,"title":"Phone","list_price":{"amount":9900,"currency":"CNY"},"sale_price":{"amount":990,"currency":"CNY"},"stock":5`

// putsDocuments plans a sale as another system does.
func (s *story) putsDocuments(t *testing.T) {
	t.Helper()
	const path, times = "admin/activities/by-external-id/erp%2F7", `"starts_at":"2031-01-01T00:00:00Z","ends_at":"2031-01-02T00:00:00Z"`
	document := func(name, items string) string {
		return fmt.Sprintf(`{"name":%q,%s,"metadata":{"erp":"7"},"sessions":[{"external_id":"s","name":"10:00","opens_at":"2031-01-01T01:00:00Z","closes_at":"2031-01-01T02:00:00Z","items":[%s]}]}`, name, times, items)
	}
	item := fmt.Sprintf(`{"external_id":"i",`+product+`}`, "phone")
	s.get(t, path, s.operator, 404)
	for _, step := range []struct {
		query, body string
		status      int
		changed     any
	}{
		{"?dry_run=true", document("Planned", item), 200, true},
		{"", document("Planned", item), 200, true},
		{"", document("Planned", item), 200, false},
		{"", document("Changed", item), 200, true},
		{"", document("Changed", item+","+item), 422, nil},
		{"?dry_run=7", document("Changed", item), 422, nil},
		{"", `{"publish":true,` + times + `,"name":"Empty"}`, 422, nil},
	} {
		require.Equal(t, step.query+step.body, s.ask(t, http.MethodPut, path+step.query, s.operator, step.body, step.status)["changed"], step.changed)
	}
	require.Equal(t, "the document's name", text(s.get(t, path, s.operator, 200), "name"), "Changed")
	doc, err := shop.Documented()
	require.NoError(t, err)
	example, err := json.Marshal(doc.At("paths", "/api/v1/admin/activities/by-external-id/{external_id}", "put", "requestBody", "content", "application/json")["example"])
	require.NoError(t, err)
	s.ask(t, http.MethodPut, "admin/activities/by-external-id/campaign-2026-11?dry_run=true", s.operator, string(example), 200)
}

// plans creates tomorrow's activity and does everything that can be done to it.
func (s *story) plans(t *testing.T) {
	t.Helper()
	const day = 24 * time.Hour
	draft := fmt.Sprintf(`{"name":"Sale","starts_at":%q,"ends_at":%q,"human_check":"pow","sessions":[{"name":"10:00","opens_at":%q,"closes_at":%q,
		"reservation_opens_at":%q,"reservation_closes_at":%q,"items":[{`+product+`}]}]}`,
		moment(day), moment(3*day), moment(day+time.Hour), moment(day+2*time.Hour), moment(-time.Hour), moment(day), "phone")
	var made map[string]any
	for _, replayed := range []string{"", "true"} {
		a := shop.Exchange(t, http.MethodPost, s.URL+"/api/v1/admin/activities", s.operator, draft, "Idempotency-Key", "plan")
		require.Equal(t, "a plan's status", a.Status, http.StatusCreated)
		require.Equal(t, "Idempotency-Replayed", a.Header.Get("Idempotency-Replayed"), replayed)
		made = a.Doc
	}
	s.ask(t, http.MethodPost, "admin/activities", s.operator, `{"name":"Other","starts_at":"2030-01-01T00:00:00Z","ends_at":"2030-01-02T00:00:00Z"}`, 422, "Idempotency-Key", "plan")
	s.activity = text(made, "id")
	sessions, _ := made["sessions"].([]any)
	first := sessions[0].(map[string]any)
	s.session = text(first, "id")
	s.item = text(first["items"].([]any)[0].(map[string]any), "id")
	activity, session, item := "admin/activities/"+s.activity, "admin/sessions/"+s.session, "admin/items/"+s.item

	s.putsDocuments(t)
	for _, list := range []string{"activities", "sessions", "items", "sessions?activity_id=" + s.activity, "items?session_id=" + s.session} {
		s.get(t, "admin/"+list, s.operator, 200)
	}
	for _, path := range []string{activity, session, item} {
		was := s.get(t, path, s.operator, 200)
		same := s.ask(t, http.MethodPatch, path, s.operator, `{"version":1}`, 200)
		if same["version"] != 1.0 || same["updated_at"] != was["updated_at"] {
			t.Errorf("an empty change turned %s into %v from %v", path, same, was)
		}
		s.ask(t, http.MethodPatch, path, s.operator, map[string]string{activity: `{"version":1,"name":"Great sale"}`, session: `{"version":1,"name":"Ten"}`, item: `{"version":1,"title":"Telephone"}`}[path], 200)
		s.ask(t, http.MethodPatch, path, s.operator, `{"version":1}`, 409)
		s.ask(t, http.MethodPatch, path, s.operator, `{}`, 422)
		s.ask(t, http.MethodPatch, path, s.operator, `{`, 400)
		s.ask(t, http.MethodPatch, path, s.operator, ``, 400)
	}
	refused := s.get(t, "admin/items?session_id=abc", s.operator, 422)
	require.Equal(t, "a wrong filter", text(refused, "detail"), "session_id must be a whole number above 0.")
	s.get(t, "admin/activities?q=First", s.operator, 422)
	s.get(t, activity+"x", s.operator, 404)
	s.get(t, activity, "", 401)
	s.get(t, activity, shop.Mint(t, 3, auth.Shopper), 403)
	s.get(t, "admin/nowhere", s.operator, 404)
	s.ask(t, http.MethodPut, activity, s.operator, `{}`, 405)
	s.ask(t, http.MethodPost, "admin/activities", s.operator, "name=Sale", 415, "Content-Type", "application/x-www-form-urlencoded")
	s.post(t, "admin/activities", s.operator, `{"name":"`+strings.Repeat("x", 4<<20)+`"}`, 413)

	more := s.post(t, "admin/sessions", s.operator, fmt.Sprintf(`{"activity_id":%q,"name":"Night","opens_at":%q,"closes_at":%q}`, s.activity, moment(day+3*time.Hour), moment(day+4*time.Hour)), 201)
	spare := s.post(t, "admin/items", s.operator, fmt.Sprintf(`{"session_id":%q,`+product+`}`, text(more, "id"), "spare"), 201)
	s.ask(t, http.MethodPut, "admin/items/"+text(spare, "id")+"/oversell", s.operator, `{"percent":20,"reason":"More comes on Monday"}`, 200)
	s.ask(t, http.MethodDelete, "admin/items/"+text(spare, "id"), s.operator, "", 204)
	s.ask(t, http.MethodDelete, "admin/sessions/"+text(more, "id"), s.operator, "", 204)
	s.post(t, session+"/repeat", s.operator, fmt.Sprintf(`{"last_day":%q,"extend_activity":true}`, time.Now().Add(3*day).Format(time.DateOnly)), 200)
	clone := s.post(t, activity+"/clone", s.operator, `{"name":"Again","shift_days":7}`, 201)
	s.ask(t, http.MethodDelete, "admin/activities/"+text(clone, "id"), s.operator, "", 204)

	s.post(t, activity+"/pause", s.operator, "", 409)
	for _, move := range []string{"publish", "pause", "resume"} {
		s.post(t, activity+"/"+move, s.operator, "", 200)
	}
	for _, move := range []string{"pause", "pause", "resume"} {
		s.post(t, item+"/"+move, s.operator, "", 200)
	}
	for _, add := range []string{"5", "-1"} {
		s.post(t, item+"/stock", s.operator, `{"add":`+add+`}`, 200)
	}
	s.post(t, item+"/write-off", s.operator, `{"units":1,"reason":"broken"}`, 409)
	for _, detail := range [][2]string{{item + "/detail", `{"description":"**New**","images":["https://127.0.0.1/1.png"],"version":0}`}, {activity + "/rules", `{"rules":"One each.","version":0}`}} {
		s.ask(t, http.MethodPut, detail[0], s.operator, detail[1], 200)
		s.get(t, detail[0], s.operator, 200)
	}
	s.ask(t, http.MethodPut, item+"/detail", s.operator, `{"description":"","images":["ftp://img.example"],"version":1}`, 422)
	s.ask(t, http.MethodPut, item+"/detail", s.operator, `{"description":"","images":[],"version":0}`, 409)
	s.get(t, strings.TrimPrefix(item, "admin/")+"/detail", "", 200)
	s.get(t, "items/999999/detail", "", 404)
	for _, rate := range []string{"100", "0", "null"} {
		s.ask(t, http.MethodPut, item+"/admission", s.operator, `{"per_second":`+rate+`}`, 200)
	}
	for _, path := range []string{item + "/admission", item + "/funnel", item + "/reservations", item + "/preview", "admin/audit", activity + "/preflight"} {
		s.get(t, path, s.operator, 200)
	}
	proof := "admin/proof/" + text(s.post(t, "admin/proof", s.operator, "", 202), "id")
	s.get(t, "admin/proof", s.operator, 200)
	for _, path := range []string{proof, item + "/funnel?step=1", session + "/funnel", session + "/report", activity + "/funnel?step=60", activity + "/war-room"} {
		s.get(t, path, s.operator, 200)
	}
}

// offers creates coupons, of which a shopper gets two, and returns one of them.
func (s *story) offers(t *testing.T, shopper string) (couponNo string) {
	t.Helper()
	terms := fmt.Sprintf(`"name":"1 off","amount_off":{"amount":100,"currency":"CNY"},"threshold":{"amount":0,"currency":"CNY"},"valid_days":7,"total":5,"claim_from":%q,"claim_until":%q`, moment(-time.Hour), moment(time.Hour))
	kind := "admin/coupons/" + text(s.post(t, "admin/coupons", s.operator, "{"+terms+"}", 201), "id")
	s.post(t, "admin/coupons", s.operator, `{"name":"nothing off"}`, 422)
	s.ask(t, http.MethodPut, kind, s.operator, `{"version":1,"per_user":3,`+terms+`}`, 200)
	s.post(t, kind+"/issue", s.operator, `{"user_ids":["3001"],"without_account":true}`, 409)
	s.post(t, kind+"/activate", s.operator, "", 200)
	s.post(t, kind+"/issue", s.operator, `{"user_ids":["3001","3002"]}`, 422) // they have no account
	s.post(t, kind+"/issue", s.operator, `{"user_ids":["3001","3002"],"without_account":true}`, 200)
	couponNo = text(s.post(t, "coupons/"+strings.TrimPrefix(kind, "admin/coupons/")+"/claim", shopper, "", 201), "coupon_no")
	s.ask(t, http.MethodDelete, kind, s.operator, "", 409)
	s.post(t, kind+"/stop", s.operator, "", 200)
	s.post(t, "coupons/"+strings.TrimPrefix(kind, "admin/coupons/")+"/claim", shopper, "", 409)
	s.ask(t, http.MethodDelete, "admin/coupons/"+text(s.post(t, "admin/coupons", s.operator, "{"+terms+"}", 201), "id"), s.operator, "", 204)
	issued, _ := s.get(t, kind+"/issued?user_id=3002", s.operator, 200)["data"].([]any)
	require.Equal(t, "coupons of user 3002", len(issued), 1)
	s.post(t, kind+"/issued/"+text(issued[0].(map[string]any), "coupon_no")+"/recall", s.operator, `{"reason":"a mistake"}`, 200)
	mistake := "admin/coupons/" + text(s.post(t, "admin/coupons", s.operator, "{"+terms+`,"issue_on":"registration"}`, 201), "id")
	s.post(t, mistake+"/recall", s.operator, `{"reason":"none was issued"}`, 409)
	s.post(t, mistake+"/activate", s.operator, "", 200)
	s.post(t, mistake+"/recall", s.operator, `{"reason":"a mistake"}`, 200)
	for _, path := range []string{kind, "admin/coupons?status=stopped"} {
		s.get(t, path, s.operator, 200)
	}
	s.get(t, "coupons", shopper, 200)
	s.get(t, "coupons/claimable", shopper, 200)
	s.get(t, "coupons?order_no=x", shopper, 404)
	return couponNo
}

// paysLate cancels an order whose bank does not learn of it, and pays it: it gets the
// unit that an operator has moved to the backup, and its own unit is on sale again.
func (s *story) paysLate(t *testing.T, item string, quitter shop.Buyer, no string) {
	t.Helper()
	order := "orders/" + no
	item = "admin/items/" + item
	payment := s.post(t, order+"/payments", quitter.Token, `{}`, 200)
	pgtest.Exec(t, s.db, `UPDATE payments.payments SET status = 'closed' WHERE order_no = $1`, no)
	s.post(t, order+"/cancel", quitter.Token, "", 200)
	s.post(t, item+"/stock", s.operator, `{"add":3}`, 200)
	s.post(t, item+"/stock", s.operator, `{"add":-1}`, 200)
	s.post(t, item+"/write-off", s.operator, `{"units":1}`, 422)
	require.Equal(t, "units written off", s.post(t, item+"/write-off", s.operator, `{"units":1,"reason":"broken"}`, 200)["written_off"], 1.0)
	s.post(t, item+"/backup", s.operator, `{"units":0}`, 422)
	require.Equal(t, "units moved", s.ask(t, http.MethodPost, item+"/backup", s.operator, `{"units":1}`, 200, "Idempotency-Key", "back")["moved"], 1.0)
	s.Do(t, http.MethodPost, text(payment, "pay_url"), "", map[string]string{"action": "pay"}, http.StatusOK)
	quitter.AwaitStatus(t, no, "paid", 10*time.Second)
	require.Equal(t, "the reason of the payment", text(s.get(t, order, quitter.Token, 200), "reason"), "backup")
	pgtest.Eventually(t, 30*time.Second, func() bool {
		books := s.get(t, item+"/funnel", s.operator, 200)["books"].(map[string]any)
		return books["difference"] == 0.0 && books["retake_pending"] == 0.0 && books["backup"] == 0.0 && books["remaining"] == 2.0 && books["available"] == 2.0
	}, "both counts to agree")
}

// refunds refunds two paid orders: one that its shopper returns, of which the bank
// fails each refund, and one that was picked up, in parts by operators. The order that
// was paid late is sent to its shopper in between.
func (s *story) refunds(t *testing.T, sale loadgen.Planned, returns shop.Buyer, no string, parts shop.Buyer, other string, late shop.Buyer, lateNo string) {
	t.Helper()
	pgtest.Exec(t, s.db, `UPDATE seckill.activities SET refund_within_hours = 1 WHERE id = $1`, sale.ActivityID)
	s.post(t, "orders/"+no+"/refunds", parts.Token, "", 404)
	s.ask(t, http.MethodPost, "orders/"+no+"/refunds", returns.Token, `{"reason":"too small"}`, 200, "Idempotency-Key", "back")
	s.post(t, "orders/"+no+"/refunds", returns.Token, "", 409)
	for _, settle := range []string{"retry", "settle-by-hand"} {
		var failed []any
		pgtest.Eventually(t, 30*time.Second, func() bool {
			failed, _ = s.get(t, "admin/refunds?status=failed", s.operator, 200)["data"].([]any)
			return len(failed) == 1
		}, "the bank to fail the refund")
		s.get(t, "admin/orders/"+no, s.operator, 200)
		refund := "admin/refunds/" + text(failed[0].(map[string]any), "refund_no") + "/"
		s.post(t, refund+"end-by-chargeback", s.operator, "", 409)
		s.post(t, refund+settle, s.operator, map[string]string{"settle-by-hand": `{"receipt":"42"}`}[settle], 200)
	}
	returns.AwaitStatus(t, no, "refunded", 10*time.Second)

	s.picksUp(t, parts, other)
	payment := s.post(t, "orders/"+other+"/payments", parts.Token, `{}`, 200)
	s.Do(t, http.MethodPost, text(payment, "pay_url"), "", map[string]string{"action": "pay"}, http.StatusOK)
	parts.AwaitStatus(t, other, "paid", 10*time.Second)
	s.handsOver(t, parts, other, late, lateNo)
	back := "admin/orders/" + other + "/refunds"
	s.post(t, back, parts.Token, `{"reason":"no"}`, 403)
	s.post(t, back, s.operator, `{}`, 422)
	s.post(t, back, s.operator, `{"amount":{"amount":1,"currency":"CNY"},"reason":"without a key"}`, 422)
	s.ask(t, http.MethodPost, back, s.operator, `{"amount":{"amount":1000000,"currency":"CNY"},"reason":"too much"}`, 409, "Idempotency-Key", "back 1")
	s.ask(t, http.MethodPost, back, s.operator, `{"amount":{"amount":1,"currency":"CNY"},"reason":"scratched"}`, 200, "Idempotency-Key", "back 2")
	large := "admin/refunds/" + text(s.ask(t, http.MethodPost, back, s.operator, `{"amount":{"amount":1,"currency":"CNY"},"reason":"again"}`, 200, "Idempotency-Key", "back 3"), "refund_no")
	s.post(t, large+"/reject", s.operator, "", 200)
	s.post(t, large+"/approve", s.admin, "", 409)
	large = "admin/refunds/" + text(s.post(t, back, s.operator, `{"reason":"damaged","units":"write_off"}`, 200), "refund_no")
	s.post(t, large+"/approve", s.operator, "", 403)
	s.post(t, large+"/approve", s.admin, "", 200)
	parts.AwaitStatus(t, other, "refunded", 10*time.Second)
	s.get(t, "admin/refunds", s.operator, 200)
	s.get(t, "admin/orders/"+other, s.operator, 200)
	pgtest.Eventually(t, 30*time.Second, func() bool {
		books := s.get(t, "admin/items/"+sale.ItemID+"/funnel", s.operator, 200)["books"].(map[string]any)
		return books["written_off"] == 2.0 && books["release_pending"] == 0.0 && books["difference"] == 0.0 && books["remaining"] == books["available"]
	}, "one unit to be on sale again and the other written off, as one was before")
}

// sells reserves in tomorrow's sale and buys in today's.
func (s *story) sells(t *testing.T) {
	t.Helper()
	shopper, item := shop.Mint(t, 3001, auth.Shopper), "items/"+s.item
	sale := s.Plan(t, 4, 500*time.Millisecond)
	s.asks(t, sale)
	s.get(t, "time", "", 200)
	s.get(t, "sessions", "", 200)
	pgtest.Eventually(t, 30*time.Second, func() bool {
		status, _ := s.Call(t, http.MethodGet, "/api/v1/"+item, "", nil)
		return status == http.StatusOK
	}, "the item to be visible")
	s.get(t, "sessions/"+s.session, "", 200)
	s.ask(t, http.MethodHead, "sessions/"+s.session, "", "", 200)
	s.get(t, "sessions/999999", "", 404)
	s.get(t, item+"/challenge?purpose=reservation", shopper, 200)
	s.get(t, item+"/challenge?purpose=anything", shopper, 422)
	s.post(t, item+"/rush-path", shopper, `{}`, 425)
	s.post(t, item+"/reservation", shopper, "", 403)
	s.get(t, "challenge?purpose=login", "", 200)

	buyers := []shop.Buyer{shop.NewBuyer(t, s.Instance, 3001), shop.NewBuyer(t, s.Instance, 3002), shop.NewBuyer(t, s.Instance, 3003), shop.NewBuyer(t, s.Instance, 3004), shop.NewBuyer(t, s.Instance, 3005)}
	var numbers, paths []string
	pgtest.Eventually(t, 30*time.Second, func() bool {
		no, path := buyers[0].Path(t, sale.ItemID)
		numbers, paths = []string{no}, []string{path}
		return s.Send(t, path) == ""
	}, "a grant")
	for _, b := range buyers[1:] {
		no, path := b.Path(t, sale.ItemID)
		numbers, paths = append(numbers, no), append(paths, path)
	}
	s.post(t, "items/"+sale.ItemID+"/rush-path", shopper, `{"quantity":3}`, 422)
	s.post(t, "items/"+sale.ItemID+"/rush-path", shopper, `{"quantity":1.0}`, 422)
	s.post(t, "rush/"+paths[1], "", "", 202)
	s.post(t, "rush/"+paths[1], "", "", 202)
	s.post(t, "rush/"+paths[3], "", "", 202)
	s.post(t, "rush/"+paths[4], "", "", 202)
	s.post(t, "rush/"+paths[2], "", "", 409)
	s.post(t, "rush/"+strings.Repeat("A", len(paths[2])), "", "", 403)
	s.get(t, "rush/"+paths[2], "", 405)
	for _, i := range []int{0, 1, 3, 4} {
		buyers[i].AwaitStatus(t, numbers[i], "pending_payment", 10*time.Second)
	}
	for range 2 {
		s.post(t, "admin/orders/"+numbers[4]+"/cancel", s.operator, `{"reason":"asked by phone"}`, 200)
	}
	_, again := buyers[1].Path(t, sale.ItemID)
	s.post(t, "rush/"+again, "", "", 409) // already bought, with order_no

	coupon := s.offers(t, buyers[0].Token)
	first, second := "orders/"+numbers[0], "orders/"+numbers[1]
	payer := buyers[0].Token
	s.get(t, "orders", payer, 200)
	s.get(t, second, payer, 404)
	s.post(t, first+"/payments", payer, `{"provider":"none"}`, 422)
	s.get(t, "coupons?order_no="+numbers[0], payer, 200)
	s.post(t, first+"/payments", payer, `{"coupon":"x"}`, 409)
	s.isSentTo(t, buyers[0], numbers[0])
	payment := s.ask(t, http.MethodPost, first+"/payments", payer, fmt.Sprintf(`{"coupon":%q}`, coupon), 200, "Idempotency-Key", "pay")
	s.Do(t, http.MethodPost, text(payment, "pay_url"), "", map[string]string{"action": "pay", "behaviour": "refund_fails"}, http.StatusOK)
	buyers[0].AwaitStatus(t, numbers[0], "paid", 10*time.Second)
	s.post(t, first+"/payments", payer, `{}`, 409)
	s.post(t, first+"/cancel", payer, "", 409)
	s.isSentTo(t, buyers[1], numbers[1])
	s.paysLate(t, sale.ItemID, buyers[1], numbers[1])
	s.get(t, "admin/orders?item_id="+sale.ItemID, s.operator, 200)
	s.get(t, "admin/orders/export?item_id="+sale.ItemID, s.operator, 200)
	s.get(t, "admin/orders/export?format=xlsx&item_id="+sale.ItemID, s.operator, 200)
	s.get(t, "admin/"+first, s.operator, 200)
	s.get(t, "admin/orders/"+strings.Repeat("0", 32), s.operator, 404)
	s.refunds(t, sale, buyers[0], numbers[0], buyers[3], numbers[3], buyers[1], numbers[1])
	s.post(t, "payments/sandbox/notify", "", `{}`, 401)
	s.post(t, "payments/sandbox/refund-notify", "", `{}`, 401)
	s.post(t, "payments/none/notify", "", `{}`, 404)
	s.get(t, "ws", payer, 426)
	s.post(t, "admin/activities/"+sale.ActivityID+"/terminate", s.operator, "", 200)

	// A reservation without a check, for which the activity's requirements must
	// be lowered first.
	version := s.get(t, "admin/activities/"+s.activity, s.operator, 200)["version"]
	s.ask(t, http.MethodPatch, "admin/activities/"+s.activity, s.operator, fmt.Sprintf(`{"version":%v,"human_check":"none"}`, version), 200)
	s.post(t, item+"/reservation", shopper, "", 201)
	s.get(t, item+"/reservation", shopper, 200)
	s.get(t, "admin/"+item+"/reservations", s.operator, 200)
	s.ask(t, http.MethodDelete, item+"/reservation", shopper, "", 204)
	s.get(t, item+"/reservation", shopper, 404)
}
