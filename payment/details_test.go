package payment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/png"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/qrtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// put settles an order's details.
func (s *bundle) put(no ids.ID, user int64, body string) answer {
	a, err := s.try(http.MethodPut, user, s.url+"/api/v1/orders/"+no.String()+"/details", body)
	if err != nil {
		s.t.Error(err)
	}
	return a
}

// has requires the status of an answer and parts of its JSON.
func (s *bundle) has(a answer, status int, parts ...string) {
	s.t.Helper()
	raw, err := json.Marshal(a.Doc)
	if err != nil || a.Status != status {
		s.t.Errorf("status %d, want %d: %s", a.Status, status, raw)
	}
	for _, part := range parts {
		if !strings.Contains(string(raw), part) {
			s.t.Errorf("no %s in %s", part, raw)
		}
	}
}

// delivered has a mark of direction around its phone, as phones copy them, and inside its name.
const delivered = `{"way":"delivery","name":"王\u202e小明","phone":"\u202a13800138000\u202c","address":"人民路 1 号"}`

// TestDetails settles orders of an activity that delivers for 8 from 500 down,
// offers a store, and wants to know whose order it is.
func TestDetails(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	s.plan.sale = seckillevent.Sale{SKU: "shoe-42", Activity: "双十一", Session: "20:00", Checkout: seckillevent.Checkout{
		Freight: 8, FreeFrom: 500, Currency: "CNY", Asked: seckillevent.Asked{
			Ways: []seckillevent.Way{seckillevent.Delivery, seckillevent.Pickup},
			Name: seckillevent.Required, Phone: seckillevent.Required, Address: seckillevent.Required, Note: seckillevent.Optional,
		},
	}}
	for _, store := range []string{`{"name":"旗舰店","address":"南京路 1 号","hours":"10:00–22:00"}`, `{"name":"旧店","address":"南京路 2 号"}`} {
		s.has(s.staff(firstOperator, http.MethodPost, "stores", store), http.StatusCreated, `"open":true`)
	}
	for range 2 {
		s.has(s.staff(firstOperator, http.MethodPost, "stores", `{"name":"新店","address":"南京路 3 号"}`, "Idempotency-Key", "third-store"), http.StatusCreated, `"id":"3"`)
	}
	s.has(s.staff(firstOperator, http.MethodPut, "stores/2", `{"name":"旧店","address":"南京路 2 号","open":false,"version":1}`), http.StatusOK, `"version":2`)
	s.has(s.staff(firstOperator, http.MethodPut, "stores/2", `{"name":"旧店","address":"南京路 2 号","open":true,"version":1}`), http.StatusConflict, "stale-version")
	run(t, s,
		anOrderIsNotPaidBeforeItsDetails, detailsThatDoNotFitAreRefused, freightIsPaidAndItsDetailsAreFixed,
		aPickupCostsNoFreightAndHasACode, anOrderIsHandedOverOnce, anOrderIsSent, historyNamesMintedTokens,
		detailsAgainstPaymentsThatBegin,
	)
	s.booksAreRight()
}

func anOrderIsNotPaidBeforeItsDetails(_ *testing.T, s *bundle) {
	no, user := s.one(100)
	s.has(s.askToPay(no, user), http.StatusConflict, `"code":"details-missing"`, `"fields":["way","name","phone","address"]`)
	s.has(s.document(no, user), http.StatusOK, `"missing":["way","name","phone","address"]`, `"sku":"shoe-42"`, `"name":"双十一"`)
	s.has(s.put(no, user+1, delivered), http.StatusNotFound)
}

// document reads an order's document as its shopper.
func (s *bundle) document(no ids.ID, user int64) answer {
	s.t.Helper()
	return s.get(user, "/api/v1/orders/"+no.String()+"/document")
}

func detailsThatDoNotFitAreRefused(t *testing.T, s *bundle) {
	no, user := s.one(100)
	for body, field := range map[string]string{
		`{"way":"delivery","name":"王小明","phone":"13800138000"}`:                                           "body.address",
		`{"name":"王小明","phone":"13800138000","address":"人民路 1 号"}`:                                        "body.way",
		`{"way":"pickup","name":"王小明","phone":"13800138000"}`:                                             "body.store_id",
		`{"way":"pickup","store_id":"1","name":"王小明","phone":"13800138000","address":"人民路"}`:              "body.address",
		`{"way":"delivery","name":"a\u0007","phone":"13800138000","address":"人民路 1 号"}`:                   "body.name",
		`{"way":"delivery","name":"王小明","phone":"call me","address":"人民路 1 号"}`:                           "body.phone",
		`{"way":"pickup","store_id":"2","name":"王小明","phone":"13800138000"}`:                              "no open store",
		`{"way":"pickup","store_id":"4","name":"王小明","phone":"13800138000"}`:                              "no open store",
		`{"way":"delivery","store_id":"1","name":"王小明","phone":"13800138000","address":"人民路 1 号"}`:        "body.store_id",
		`{"way":"delivery","name":"` + strings.Repeat("长", 61) + `","phone":"13800138000","address":"x"}`: "body.name",
	} {
		s.has(s.put(no, user, body), http.StatusUnprocessableEntity, field)
	}
	chinese, err := s.try(http.MethodPut, user, s.url+"/api/v1/orders/"+no.String()+"/details", `{"way":"delivery","name":"王小明","phone":"call me"}`, "Accept-Language", "zh-CN")
	require.NoError(t, err)
	s.has(chinese, http.StatusUnprocessableEntity, `{"location":"body.address","message":"必填。"}`, `{"location":"body.phone","message":"请输入正确的手机号，例如 13800138000；境外号码请加国家代码。"}`)
	s.has(s.askToPay(no, user), http.StatusConflict, `"code":"details-missing"`)
}

func freightIsPaidAndItsDetailsAreFixed(t *testing.T, s *bundle) {
	dear, rich := s.one(500)
	s.has(s.put(dear, rich, delivered), http.StatusOK, `"total":{"amount":500,"currency":"CNY"}`)

	no, user := s.one(100)
	s.has(s.put(no, user, delivered), http.StatusOK, `"freight":{"amount":8,"currency":"CNY"}`, `"amount":{"amount":108,"currency":"CNY"}`, `"missing":[]`, `"phone":"+8613800138000"`, `"name":"王小明"`)
	s.has(s.put(no, user, delivered), http.StatusOK, `"version":2`) // nothing changed
	require.Equal(t, "events of the freight", s.events(orderevent.SubjectAmended, no), 1)
	s.has(s.get(user, "/api/v1/orders/"+no.String()), http.StatusOK, `"amount":{"amount":108,"currency":"CNY"}`)
	_, url := s.startPayment(no, user)
	s.has(s.put(no, user, delivered), http.StatusConflict, `"code":"details-fixed"`)
	s.settlesAt(url, no)
	s.has(s.put(no, user, delivered), http.StatusConflict, `"code":"order-not-payable"`, "while it waits for payment")
	for role, parts := range map[auth.Role][]string{
		auth.Viewer:   {`"name":"王****"`, `"phone":"138****8000"`, `"address":"****"`},
		auth.Operator: {`"name":"王小明"`, `"phone":"+8613800138000"`, `"address":"人民路 1 号"`},
	} {
		token := s.token(auth.Principal{UserID: firstOperator, Role: role})
		a, err := s.try(http.MethodGet, 0, s.url+"/api/v1/admin/orders/"+no.String(), "", "Authorization", "Bearer "+token)
		require.NoError(t, err)
		s.has(a, http.StatusOK, parts...)
	}
	s.has(s.document(no, user), http.StatusOK, `"paid":{"amount":108,"currency":"CNY"}`, `"provider":"sandbox"`, `"provider_txn":`, `"address":"人民路 1 号"`, `"paid_at":`,
		`"of":"payment","status":"captured"`, `"of":"order","reason":"freight","status":"pending_payment"`)
}

var pickupCode = regexp.MustCompile(`^([0-9A-HJKMNP-TV-Z]{4}-){2}[0-9A-HJKMNP-TV-Z]{4}$`)

func aPickupCostsNoFreightAndHasACode(t *testing.T, s *bundle) {
	no, user := s.one(100)
	s.has(s.put(no, user, delivered), http.StatusOK, `"total":{"amount":108,"currency":"CNY"}`)
	pending := s.put(no, user, pickedUpHere)
	s.has(pending, http.StatusOK, `"total":{"amount":100,"currency":"CNY"}`, `"name":"旗舰店"`)
	require.Equal(t, "the code before the payment", pending.Doc["pickup"], nil)
	s.pays(no, user)
	if code := s.pickupCode(no, user); !pickupCode.MatchString(code) {
		t.Errorf("the pickup code of a paid order is %q", code)
	}
}

// pickupCode is the code that an order's shopper sees, "" for none.
func (s *bundle) pickupCode(no ids.ID, user int64) string {
	s.t.Helper()
	pickup, _ := s.document(no, user).Doc["pickup"].(map[string]any)
	code, _ := pickup["code"].(string)
	return code
}

// pickedUpHere has an order picked up at the open store.
const pickedUpHere = `{"way":"pickup","store_id":"1","name":"王小明","phone":"13800138000"}`

// parcel completes an order that was sent.
const parcel = `{"carrier":"SF Express","tracking_no":"SF1"}`

func anOrderIsHandedOverOnce(t *testing.T, s *bundle) {
	no, user := s.one(100)
	s.has(s.put(no, user, pickedUpHere), http.StatusOK)
	early := read[string](s, `SELECT pickup_code FROM orders.details WHERE order_no = $1`, no)
	s.has(s.staff(firstOperator, http.MethodPost, "pickups", `{"code":"`+early+`"}`), http.StatusConflict, "order-not-completable", orderevent.StatusPending)
	s.pays(no, user)
	token := s.token(auth.Principal{UserID: user, Role: auth.Shopper})
	picture := httpxtest.Ask(t, s.door, token, http.MethodGet, "/api/v1/orders/"+no.String()+"/pickup-code.png", nil)
	img, err := png.Decode(bytes.NewReader(picture.Raw))
	require.NoError(t, err)
	shown, _, _, err := qrtest.Read(img)
	require.NoError(t, err)
	require.Equal(t, "the code in the picture", shown, early)
	s.has(s.staff(firstOperator, http.MethodPost, "pickups", `{"code":"0000-0000-0000"}`), http.StatusNotFound)
	s.has(s.staff(firstOperator, http.MethodPost, "orders/"+no.String()+"/complete", parcel), http.StatusUnprocessableEntity, "admin/pickups")
	typed := strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(early, "-", " "), "0", "o"))
	s.has(s.staff(firstOperator, http.MethodPost, "pickups", `{"code":"`+typed+`"}`), http.StatusOK, `"status":"completed"`, `"reason":"pickup"`, `"phone":"+8613800138000"`)
	s.has(s.staff(secondOperator, http.MethodPost, "pickups", `{"code":"`+early+`"}`), http.StatusConflict, `"code":"picked-up"`, `"completed_at":`,
		fmt.Sprintf(`"completed_by":"operator %d"`, firstOperator))
	s.has(s.staff(firstOperator, http.MethodDelete, "stores/1", ""), http.StatusConflict, "store-in-use")
	require.Equal(t, "events of the completion", s.events(orderevent.SubjectCompleted, no), 1)
	require.Equal(t, "the code of a completed order", s.pickupCode(no, user), "")

	byHand, user := s.one(100)
	s.has(s.put(byHand, user, pickedUpHere), http.StatusOK)
	s.pays(byHand, user)
	code := s.pickupCode(byHand, user)
	s.has(s.staff(firstOperator, http.MethodPost, "orders/"+byHand.String()+"/complete", ""), http.StatusOK, `"status":"completed"`)
	s.has(s.staff(secondOperator, http.MethodPost, "pickups", `{"code":"`+code+`"}`), http.StatusConflict, `"code":"picked-up"`)
}

func anOrderIsSent(t *testing.T, s *bundle) {
	no, user := s.one(100)
	s.has(s.put(no, user, delivered), http.StatusOK)
	s.has(s.staff(firstOperator, http.MethodPost, "orders/"+no.String()+"/complete", parcel), http.StatusConflict, "order-not-completable", orderevent.StatusPending)
	s.pays(no, user)
	s.has(s.document(no, user), http.StatusOK, `"handover":"to_ship"`)
	s.has(s.staff(firstOperator, http.MethodPut, "orders/"+no.String()+"/shipment", `{"carrier":"SF","tracking_no":"1"}`), http.StatusOK, `"handover":"shipped"`)
	for _, path := range []string{"/api/v1/orders", "/api/v1/orders/" + no.String()} {
		s.has(s.get(user, path), http.StatusOK, `"status":"paid"`, `"handover":"shipped"`)
	}
	s.has(s.staff(firstOperator, http.MethodGet, "orders?user_id="+strconv.FormatInt(user, 10), ""), http.StatusOK, `"handover":"shipped"`)
	s.has(s.staff(firstOperator, http.MethodPost, "orders/"+no.String()+"/complete", parcel), http.StatusOK, `"status":"completed"`, `"tracking_no":"SF1"`, `"reason":"shipped"`)
	s.has(s.staff(firstOperator, http.MethodPost, "orders/"+no.String()+"/complete", parcel), http.StatusConflict, "order-not-completable")
	s.has(s.document(no, user), http.StatusOK, `"carrier":"SF Express"`, `"status":"completed"`)
	unnoted, user := s.one(100)
	s.has(s.put(unnoted, user, delivered), http.StatusOK)
	s.pays(unnoted, user)
	s.has(s.staff(firstOperator, http.MethodPost, "orders/"+unnoted.String()+"/complete", parcel), http.StatusOK, `"status":"completed"`)
	require.Equal(t, "what readers of events see, to tell the shopper", read[string](s, `SELECT handover FROM orders.orders WHERE order_no = $1`, unnoted), orderevent.HandoverShipped)
	s.has(s.staff(firstOperator, http.MethodPost, "orders/"+ids.NewFor(user).String()+"/complete", parcel), http.StatusNotFound)
}

// detailsAgainstPaymentsThatBegin: whichever of the two comes first, the shopper is
// charged what the order costs.
func detailsAgainstPaymentsThatBegin(t *testing.T, s *bundle) {
	nos, users := s.buy(12, 100)
	var group sync.WaitGroup
	for i, no := range nos {
		s.put(no, users[i], pickedUpHere).Want(t, "", http.StatusOK, "")
		group.Go(func() { s.put(no, users[i], delivered) })
		group.Go(func() { _, _ = s.tryPost(users[i], s.url+"/api/v1/orders/"+no.String()+"/payments", "") })
	}
	group.Wait()
	wrong := read[int](s, `SELECT count(*) FROM payments.payments p JOIN orders.orders o USING (order_no)
		WHERE order_no = ANY($1) AND p.amount <> orders.amount(o.unit_price, o.quantity, o.freight, o.discount)`, nos)
	require.Equal(t, "payments that charge another amount than their order says", wrong, 0)
}

// historyNamesMintedTokens does what shoppers do with orders, with a token of `stampede
// token`.
func historyNamesMintedTokens(t *testing.T, s *bundle) {
	s.plan.within = time.Hour
	t.Cleanup(func() { s.plan.within = 0 })
	as := func(user int64, method string, no ids.ID, path, body string) {
		t.Helper()
		token := s.token(auth.Principal{UserID: user, Role: auth.Shopper, Act: auth.ByCLI})
		a, err := s.try(method, 0, s.url+"/api/v1/orders/"+no.String()+path, body, "Authorization", "Bearer "+token)
		if err != nil || a.Status != http.StatusOK {
			t.Fatalf("%s: %d %v, %v", path, a.Status, a.Doc, err)
		}
	}
	no, user := s.one(100)
	as(user, http.MethodPut, no, "/details", delivered)
	as(user, http.MethodPost, no, "/cancel", "")
	require.Equal(t, "history", s.history(no), "pending_payment by system; pending_payment by minted token; closed by minted token")
	no, user = s.one(500)
	as(user, http.MethodPut, no, "/details", delivered)
	s.pays(no, user)
	as(user, http.MethodPost, no, "/refunds", "")
	require.Equal(t, "history", s.story(no), "refunding by minted token")
	s.refundsDone(no)
}
