package webhook

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"stampede/order/couponevent"
	"stampede/order/pointsevent"
	"stampede/payment/paymentevent"
	"stampede/platform/edge/auth"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// Each subject that is listed becomes events as its module writes it, and every type has an example.
func TestMessagesBecomeEvents(t *testing.T) {
	t.Parallel()
	b := setup(t, Settings{})
	no := exampleNo
	for _, c := range []struct {
		subject string
		payload any
		want    []string
	}{
		{paymentevent.SubjectClosed, paymentevent.Closed{PaymentNo: no, OrderNo: no, UserID: 7, Amount: 5, Currency: "CNY"}, []string{`payment.closed {"payment_no":"NO","order_no":"NO","user_id":"7","amount":{"amount":5,"currency":"CNY"}}`}},
		{paymentevent.SubjectRefundFailed, paymentevent.RefundFailed{Refund: paymentevent.Refund{RefundNo: no, OrderNo: no, UserID: 7, Amount: 5, Currency: "CNY", Reason: "late"}, Detail: "no"}, []string{
			`refund.failed {"refund_no":"NO","order_no":"NO","user_id":"7","amount":{"amount":5,"currency":"CNY"},"reason":"late","detail":"no"}`,
		}},
		{paymentevent.SubjectRefundAwaiting, paymentevent.RefundAwaiting{Refund: paymentevent.Refund{RefundNo: no, OrderNo: no, UserID: 7, Amount: 5, Currency: "CNY", Reason: "operator"}}, []string{
			`refund.awaiting_approval {"refund_no":"NO","order_no":"NO","user_id":"7","amount":{"amount":5,"currency":"CNY"},"reason":"operator"}`,
		}},
		{seckillevent.SubjectSessionEnded, seckillevent.Session{SessionID: 3, ActivityID: 2, ActivityExternalID: "a", OpensAt: exampleAt, ClosesAt: exampleAt, Terminated: true}, []string{
			`session.ended {"session_id":"3","activity_id":"2","activity_external_id":"a","opens_at":"2026-11-11T12:00:00.000Z","closes_at":"2026-11-11T12:00:00.000Z","terminated":true}`,
		}},
		{seckillevent.SubjectItemSoldOut, seckillevent.Items{Items: []seckillevent.Item{{ItemID: 4, SKU: "x", SessionID: 3, ActivityID: 2, Held: 1}, {ItemID: 5, ExternalID: "e", SKU: "y", SessionID: 3, ActivityID: 2, Unlimited: true}}}, []string{
			`item.sold_out {"item_id":"4","sku":"x","session_id":"3","activity_id":"2","left":0,"held":1}`,
			`item.sold_out {"item_id":"5","external_id":"e","sku":"y","session_id":"3","activity_id":"2","held":0}`,
		}},
		{couponevent.SubjectUsed, couponevent.Changed{Coupons: []couponevent.Coupon{{CouponNo: &no, KindID: 6, UserID: 7, OrderNo: &no, Discount: 5, Currency: "CNY"}}}, []string{
			`coupon.used {"coupon_no":"NO","kind_id":"6","user_id":"7","order_no":"NO","discount":{"amount":5,"currency":"CNY"}}`,
		}},
		{pointsevent.SubjectTakenBack, pointsevent.Entry{EntryNo: no, OrderNo: no, UserID: 7, Points: -5}, []string{
			`points.taken_back {"entry_no":"NO","order_no":"NO","user_id":"7","points":-5}`,
		}},
		{couponevent.SubjectRecalled, couponevent.Changed{Coupons: []couponevent.Coupon{{KindID: 6}}}, []string{`coupon.recalled {"kind_id":"6"}`}},
		{alarm.SubjectRaised, alarm.Raised{ID: 1, Incident: 2, Code: "x", Severity: alarm.Warning, Subject: "s", NextAction: "Wait.", OpenedAt: exampleAt}, []string{
			`alarm.raised {"alarm_id":"1","incident":2,"code":"x","severity":"warning","subject":"s","next_action":"Wait.","opened_at":"2026-11-11T12:00:00.000Z"}`,
		}},
	} {
		b.message(c.subject, c.payload)
		a := b.ask(auth.Viewer, http.MethodGet, "/api/v1/events?type="+kinds[c.subject].name, nil).Want(t, c.subject, 200, "")
		var page Events
		require.NoError(t, json.Unmarshal(a.Raw, &page))
		var got []string
		for _, e := range page.Data {
			got = append(got, e.Type+" "+strings.ReplaceAll(string(e.Data), no.String(), "NO"))
		}
		require.Equal(t, c.subject, got, c.want)
	}
	for subject, k := range kinds {
		of := reflect.TypeOf(k.example)
		schemas, found := huma.NewMapRegistry("#/", huma.DefaultSchemaNamer), new(huma.ValidateResult)
		huma.Validate(schemas, schemas.Schema(of, false, of.Name()), huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, plain(k.example), found)
		if len(found.Errors) > 0 {
			t.Errorf("the example of %s is not as its schema: %v", subject, found.Errors)
		}
	}
}
