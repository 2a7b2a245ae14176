package contract

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/ids"
	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/shop"
)

// asks has a sale ask its shoppers how the goods reach them, before its first order.
func (s *story) asks(t *testing.T, sale loadgen.Planned) {
	t.Helper()
	pgtest.Exec(t, s.db, `UPDATE seckill.activities SET checkout = '{"ways":["delivery","pickup"],"name":"required"}' WHERE id = $1`, sale.ActivityID)
}

// isSentTo settles an order that waits for its payment.
func (s *story) isSentTo(t *testing.T, shopper shop.Buyer, no string) {
	t.Helper()
	s.post(t, "orders/"+no+"/payments", shopper.Token, `{}`, 409)
	s.ask(t, http.MethodPut, "orders/"+no+"/details", shopper.Token, `{"way":"delivery"}`, 422)
	s.ask(t, http.MethodPut, "orders/"+no+"/details", shopper.Token, `{"way":"delivery","name":"Wang"}`, 200)
}

// picksUp settles one that is to be picked up at a store.
func (s *story) picksUp(t *testing.T, shopper shop.Buyer, no string) {
	t.Helper()
	const place = `"name":"Flagship","address":"1 Nanjing Road"`
	store := s.ask(t, http.MethodPost, "admin/stores", s.operator, "{"+place+"}", 201, "Idempotency-Key", "store")
	s.ask(t, http.MethodPut, "admin/stores/"+text(store, "id"), s.operator, `{"version":1,"open":true,"hours":"10:00–22:00",`+place+`}`, 200)
	s.post(t, "admin/stores", s.operator, `{"name":"","address":""}`, 422)
	spare := s.post(t, "admin/stores", s.operator, "{"+place+"}", 201)
	s.ask(t, http.MethodDelete, "admin/stores/"+text(spare, "id"), s.operator, "", 204)
	s.get(t, "admin/stores", s.operator, 200)
	s.get(t, "admin/stores/"+text(store, "id"), s.operator, 200)
	s.get(t, "stores", shopper.Token, 200)

	order := "orders/" + no
	s.get(t, order+"/document", shopper.Token, 200)
	s.ask(t, http.MethodPut, order+"/details", shopper.Token, fmt.Sprintf(`{"way":"pickup","store_id":%q,"name":"Wang"}`, text(store, "id")), 200)
	s.ask(t, http.MethodDelete, "admin/stores/"+text(store, "id"), s.operator, "", 409)
}

// handsOver completes an order that was paid, for its pickup code, and another one with
// its tracking number, about which its shopper then complains.
func (s *story) handsOver(t *testing.T, picks shop.Buyer, no string, sent shop.Buyer, other string) {
	t.Helper()
	waiting := s.get(t, "orders/"+no+"/document", picks.Token, 200)
	pickup, _ := waiting["pickup"].(map[string]any)
	s.get(t, "orders/"+no+"/pickup-code.png", picks.Token, 200)
	s.post(t, "admin/pickups", s.operator, `{"code":"0000-0000-0000"}`, 404)
	code := fmt.Sprintf(`{"code":%q}`, text(pickup, "code"))
	s.post(t, "admin/pickups", s.operator, code, 200)
	s.post(t, "admin/pickups", s.operator, code, 409)
	s.ask(t, http.MethodPut, "admin/orders/"+no+"/shipment", s.operator, `{"carrier":"SF Express","tracking_no":"SF1"}`, 422)
	s.ask(t, http.MethodPut, "admin/orders/"+other+"/shipment", s.operator, `{"carrier":"SF Express","tracking_no":"SF1"}`, 200)
	s.post(t, "admin/orders/"+other+"/notes", s.operator, `{"note":"call before\nthe delivery"}`, 200)
	s.post(t, "admin/orders/"+other+"/notes", s.operator, `{"note":"call \u0007"}`, 422)
	s.ask(t, http.MethodPatch, "admin/orders/"+other+"/external", s.operator, `{"external_id":"SO/7","metadata":{"clerk":"Li Lei"}}`, 200)
	s.ask(t, http.MethodPatch, "admin/orders/"+other+"/external", s.operator, `{"external_id":"with a space"}`, 422)
	s.get(t, "admin/orders?external_id=SO%2F7", s.operator, 200)
	s.post(t, "admin/orders/"+other+"/cancel", s.operator, `{"reason":"too late"}`, 409)
	s.post(t, "admin/orders/actions", s.operator, fmt.Sprintf(`{"action":"ship","orders":[{"order_no":%q,"carrier":"SF Express","tracking_no":"SF2"}]}`, other), 200)
	s.post(t, "admin/orders/actions", s.operator, `{"action":"cancel","orders":[]}`, 422)
	s.post(t, "admin/shipments", s.operator, fmt.Sprintf(`{"orders":[{"order_no":%q,"carrier":"SF","tracking_no":"SF1234567890123"}]}`, other), 200)
	s.post(t, "admin/shipments", s.operator, `{"orders":[]}`, 422)
	sheet := "order_no,carrier,tracking_no\n" + other + ",SF,SF1234567890123\n"
	s.ask(t, http.MethodPost, "admin/shipments/import", s.operator, sheet, 200, "Content-Type", "application/octet-stream")
	s.ask(t, http.MethodPost, "admin/shipments/import", s.operator, "no heading", 422, "Content-Type", "application/octet-stream")
	s.get(t, "admin/carriers", s.operator, 200)
	s.post(t, "admin/orders/"+other+"/complete", s.operator, `{"carrier":"SF Express","tracking_no":"SF1234567890"}`, 200)
	s.post(t, "orders/"+other+"/receipt", sent.Token, "", 200)
	s.post(t, "admin/orders/"+other+"/complete", s.operator, `{"carrier":"SF Express","tracking_no":"SF1234567890"}`, 409)

	complaints := "orders/" + other + "/disputes"
	s.post(t, complaints, sent.Token, `{}`, 422)
	dispute := text(s.post(t, complaints, sent.Token, `{"reason":"too small"}`, 201), "dispute_no")
	s.post(t, complaints, sent.Token, `{"reason":"again"}`, 409)
	s.post(t, "admin/disputes/"+dispute+"/answers", s.operator, `{"text":"Which size is it?"}`, 201)
	s.post(t, "disputes/"+dispute+"/replies", sent.Token, `{"text":"42"}`, 201)
	s.post(t, "admin/disputes/"+dispute+"/close", s.operator, `{"reason":"It is as ordered."}`, 200)
	s.get(t, complaints, sent.Token, 200)
	s.get(t, "admin/disputes", s.operator, 200)
	s.get(t, "admin/disputes/"+dispute, s.operator, 200)
	s.get(t, "orders/"+other+"/document", sent.Token, 200)
	s.get(t, "admin/orders/"+other, s.operator, 200)
}

// settlesDays uses the operator's routes of statements and messages.
func (s *story) settlesDays(t *testing.T) {
	t.Helper()
	s.get(t, "payment-methods", "", 200)
	day := "admin/statements/" + time.Now().AddDate(0, 0, -2).Format(time.DateOnly)
	s.post(t, day, s.operator, `{"provider":"sandbox"}`, 200)
	s.post(t, day, s.operator, `{"provider":"none"}`, 422)
	s.get(t, day, s.operator, 200)

	refused := []string{ids.New().String(), ids.New().String()}
	for _, id := range refused {
		if _, err := s.db.Exec(t.Context(), `INSERT INTO platform.outbox_refused (id, subject, payload, created_at, error, failed_at)
			VALUES ($1, 'events.contract.made', '{}', now(), 'made by a test', now())`, id); err != nil {
			t.Fatal(err)
		}
	}
	for _, status := range []string{"failed", "pending", "sent"} {
		s.get(t, "admin/messages?status="+status, s.operator, 200)
	}
	s.get(t, "admin/messages/"+refused[0], s.operator, 200)
	s.post(t, "admin/messages/"+refused[0]+"/redrive", s.operator, "", 200)
	s.post(t, "admin/messages/redrive", s.operator, `{"subject":"events.contract.made"}`, 200)
	s.get(t, "admin/messages/"+strings.Repeat("0", 32), s.operator, 404)
}
