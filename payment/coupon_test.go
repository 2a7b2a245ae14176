package payment

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"stampede/order/couponevent"
	"stampede/order/orderevent"
	"stampede/payment/sandbox"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
)

func TestCoupons(t *testing.T) {
	t.Parallel()
	run(t, setup(t, options{}),
		aCouponLowersWhatIsPaid, anotherChoiceClosesTheOpenPaymentFirst,
		aCouponThatDoesNotFitChangesNothing, aFreeOrderByCoupon, moneyOfTheFormerAmountGoesBack,
		aClosedOrderGivesItsCouponBack, aRefundedOrderGivesItsCouponBack, lateMoneyUsesTheCouponAgain,
		lateMoneyOfAnotherAmountGoesBack, theShopBearsACouponUsedElsewhere,
		oneCouponForTwoOrdersAtOneMoment, choicesAndPaymentsAtOneMoment,
	)
}

// issued is a coupon of the user that takes off so much; each is of a kind of its own.
func (s *bundle) issued(user, off int64) (couponNo string) {
	s.t.Helper()
	kind := s.staff(firstOperator, http.MethodPost, "coupons", fmt.Sprintf(
		`{"name":"off","amount_off":{"amount":%d,"currency":"CNY"},"threshold":{"amount":0,"currency":"CNY"},"valid_days":1,"total":1}`, off)).Text("id")
	s.staff(firstOperator, http.MethodPost, "coupons/"+kind+"/activate", "")
	issued := s.staff(firstOperator, http.MethodPost, "coupons/"+kind+"/issue", fmt.Sprintf(`{"user_ids":["%d"]}`, user)).Doc["issued"]
	require.Equal[any](s.t, "coupons issued", issued, 1.0)
	return read[ids.ID](s, `SELECT coupon_no FROM orders.coupons WHERE kind_id = $1`, kind).String()
}

// choose starts a payment with a coupon, and requires its amount, or the problem's code.
func (s *bundle) choose(no ids.ID, user int64, coupon string, want any) answer {
	s.t.Helper()
	a := s.post(user, "/api/v1/orders/"+no.String()+"/payments", fmt.Sprintf(`{"coupon":%q}`, coupon))
	got := a.Doc["code"]
	if amount, ok := a.Doc["amount"].(map[string]any); ok {
		got = int(amount["amount"].(float64))
	}
	if got != want {
		s.t.Fatalf("to pay with the coupon: %v, want %v: %v", got, want, a.Doc)
	}
	return a
}

// use is how the order has its coupon, "" without one.
func (s *bundle) use(no ids.ID) string {
	s.t.Helper()
	return read[string](s, `SELECT coalesce((SELECT status FROM orders.coupon_uses WHERE order_no = $1), '')`, no)
}

// couponIs requires a coupon's status as its shopper reads it.
func (s *bundle) couponIs(user int64, couponNo, want string) {
	s.t.Helper()
	list, _ := s.get(user, "/api/v1/coupons").Doc["data"].([]any)
	for _, c := range list {
		if c := c.(map[string]any); c["coupon_no"] == couponNo {
			require.Equal[any](s.t, "the coupon", c["status"], want)
			return
		}
	}
	s.t.Errorf("the shopper has no coupon %s: %v", couponNo, list)
}

// couponEvents requires how many events say that the order's coupon was used and came back.
func (s *bundle) couponEvents(no ids.ID, used, returned int) {
	s.t.Helper()
	require.Equal(s.t, "events about the coupon", [...]int{s.events(couponevent.SubjectUsed, no), s.events(couponevent.SubjectReturned, no)}, [...]int{used, returned})
}

// couponsAgree requires that the books and the coupons are right.
func (s *bundle) couponsAgree() {
	s.t.Helper()
	s.booksAreRight()
	for _, c := range s.orders.Checks() {
		if c.ID != "I4" {
			continue
		}
		if found, err := c.Run(s.t.Context()); err != nil || len(found) > 0 {
			s.t.Errorf("%v, %v", found, err)
		}
	}
}

func aCouponLowersWhatIsPaid(t *testing.T, s *bundle) {
	no, user := s.one(9900)
	small, large := s.issued(user, 100), s.issued(user, 900)
	list, _ := s.get(user, "/api/v1/coupons?order_no="+no.String()).Doc["data"].([]any)
	if len(list) != 2 || list[0].(map[string]any)["coupon_no"] != large || list[1].(map[string]any)["coupon_no"] != small {
		t.Errorf("not the best first: %v", list)
	}
	a := s.choose(no, user, large, 9000)
	s.has(s.get(user, "/api/v1/orders/"+no.String()), http.StatusOK, `"amount":{"amount":9000,"currency":"CNY"}`)
	require.Equal(t, "events about the discount", s.events(orderevent.SubjectAmended, no), 1)
	require.Equal(t, "the payment of the same choice", s.choose(no, user, large, 9000).Text("payment_no"), a.Text("payment_no"))
	require.Equal(t, "the payment without a choice", s.askToPay(no, user).Text("payment_no"), a.Text("payment_no"))
	s.couponIs(user, large, "locked")
	s.couponsAgree()
	s.settlesAt(a.Text("pay_url"), no)
	s.couponIs(user, large, "used")
	s.couponEvents(no, 1, 0)
	s.couponIs(user, small, "available")
	s.couponsAgree()
}

func anotherChoiceClosesTheOpenPaymentFirst(t *testing.T, s *bundle) {
	no, user := s.one(9900)
	one, two := s.issued(user, 100), s.issued(user, 200)
	payments := []string{s.choose(no, user, "", 9900).Text("payment_no")}
	for _, c := range []struct {
		coupon string
		want   int
	}{{one, 9800}, {two, 9700}, {"", 9900}, {one, 9800}} {
		payments = append(payments, s.choose(no, user, c.coupon, c.want).Text("payment_no"))
		last, _ := ids.Parse(payments[len(payments)-2])
		s.paymentIs(last, "closed")
		require.Equal(t, "the former payment at the bank", read[string](s, `SELECT status FROM sandbox.payments WHERE payment_no = $1`, last), "closed")
	}
	s.couponIs(user, one, "locked")
	s.couponIs(user, two, "available")
	s.couponsAgree()
	s.bank.shut.Store(true) // the open payment cannot be closed: nothing changes
	s.choose(no, user, two, "payment-unavailable")
	s.bank.shut.Store(false)
	s.couponIs(user, one, "locked")
	require.Equal(t, "the payment that could not be closed", s.choose(no, user, one, 9800).Text("payment_no"), payments[4])
}

func aCouponThatDoesNotFitChangesNothing(t *testing.T, s *bundle) {
	no, user := s.one(90)
	mine, elsewhere, stranger := s.issued(user, 40), s.issued(user, 40), s.issued(user+1_000_000, 40)
	s.choose(s.another(user, 800), user, elsewhere, 760)
	open := s.choose(no, user, mine, 50).Text("payment_no")
	unfit := map[string]string{"another shopper's": stranger, "no coupon": ids.NewFor(user).String(), "no number": "x", "in use": elsewhere}
	for name, change := range map[string]string{
		"dear": `threshold = 91`, "foreign": `currency = 'USD'`, "other item": `item_ids = '{77}'`, "other activity": `activity_ids = '{77}'`,
		"nothing off": `amount_off = 0, percent_off = 1`,
	} {
		unfit[name] = s.issued(user, 40)
		s.exec(`UPDATE orders.coupon_kinds SET `+change+` WHERE id = (SELECT kind_id FROM orders.coupons WHERE coupon_no = $1)`, unfit[name])
	}
	for name, span := range map[string]string{"expired": `valid_until = clock_timestamp()`, "not yet": `valid_from = clock_timestamp() + interval '1 hour'`} {
		unfit[name] = s.issued(user, 40)
		s.exec(`UPDATE orders.coupons SET `+span+` WHERE coupon_no = $1`, unfit[name])
	}
	for name, coupon := range unfit {
		s.choose(no, user, coupon, "coupon-not-usable").Want(t, name, http.StatusConflict, "")
	}
	require.Equal(t, "the open payment, beside a coupon that does not fit", s.askToPay(no, user).Text("payment_no"), open)
	fits, _ := s.get(user, "/api/v1/coupons?order_no="+no.String()).Doc["data"].([]any)
	require.Equal(t, "coupons that fit, which is the one it has", len(fits), 1)
	s.couponsAgree()
}

// another is a pending order of the same user, of an item that no other order has.
func (s *bundle) another(user, price int64) ids.ID {
	s.t.Helper()
	no := ids.NewFor(user)
	s.exec(`INSERT INTO orders.orders (bucket, order_no, user_id, item_id, activity_id, session_id, epoch, quantity, unit_price, currency, title, status, pay_deadline)
		VALUES ($1, $2, $3, $4, 10, 5, 1, 1, $5, 'CNY', '手机壳', 'pending_payment', now() + interval '10 minutes')`, no.Bucket(), no, user, s.user.Add(1)+1_000_000, price)
	return no
}

func aFreeOrderByCoupon(t *testing.T, s *bundle) {
	no, user := s.one(100)
	coupon := s.issued(user, 1000)
	s.choose(no, user, "", 100)
	a := s.choose(no, user, coupon, 0)
	require.Equal(t, "status and provider", [...]string{a.Text("status"), a.Text("provider")}, [...]string{"captured", free})
	s.orderIs(no, orderevent.StatusPaid)
	s.couponIs(user, coupon, "used")
	s.couponsAgree()
}

// A payment that was closed for another choice, and is paid all the same, does not pay
// the order, which costs another amount now.
func moneyOfTheFormerAmountGoesBack(_ *testing.T, s *bundle) {
	no, user := s.one(9900)
	coupon := s.issued(user, 900)
	former, url := s.startPayment(no, user)
	s.exec(`UPDATE payments.payments SET status = 'closed' WHERE payment_no = $1`, former) // the bank will not honour its close
	a := s.choose(no, user, coupon, 9000)
	s.payAt(url, sandbox.Normal)
	s.refundRequested(no, "mismatch")
	s.orderIs(no, orderevent.StatusPending)
	s.couponsAgree()
	s.settlesAt(a.Text("pay_url"), no)
	s.refundsDone(no)
	s.couponIs(user, coupon, "used")
	s.couponsAgree()
}

func aClosedOrderGivesItsCouponBack(_ *testing.T, s *bundle) {
	no, user := s.one(9900)
	coupon := s.issued(user, 900)
	s.choose(no, user, coupon, 9000)
	s.cancelOrder(no, user).Want(s.t, "", http.StatusOK, "")
	s.couponIs(user, coupon, "available")
	s.couponEvents(no, 0, 0)
	s.couponsAgree()
	s.choose(s.another(user, 1000), user, coupon, 100)
	s.couponsAgree()
}

func aRefundedOrderGivesItsCouponBack(t *testing.T, s *bundle) {
	no, user := s.one(9900)
	coupon := s.issued(user, 900)
	a := s.choose(no, user, coupon, 9000)
	s.settlesAt(a.Text("pay_url"), no)
	s.askBack(no, `{"amount":{"amount":1000,"currency":"CNY"},"reason":"scratched"}`, "requested")
	s.refundsDone(no)
	s.couponIs(user, coupon, "used") // part of the money is no refund of the order
	s.couponsAgree()
	s.askBack(no, `{"reason":"the rest"}`, "requested")
	s.couponsAgree()
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusRefunded)
	s.couponIs(user, coupon, "available")
	s.couponEvents(no, 1, 1)
	require.Equal(t, "went back of 9000 that were paid", read[int](s, `SELECT sum(amount) FROM payments.refunds WHERE order_no = $1`, no), 9000)
	s.couponsAgree()
}

// lateWithCoupon is a closed order with units in the backup, which had a coupon, and
// the address at which its payment is paid after all.
func (s *bundle) lateWithCoupon() (no ids.ID, user int64, coupon, url string) {
	s.t.Helper()
	s.exec(`UPDATE inventory.stock SET total = total + 1, backup = backup + 1 WHERE item_id = $1`, s.item)
	no, user = s.one(9900)
	coupon = s.issued(user, 900)
	url = s.choose(no, user, coupon, 9000).Text("pay_url")
	s.closeBehindTheBank(no, user)
	s.couponIs(user, coupon, "available")
	return no, user, coupon, url
}

func lateMoneyUsesTheCouponAgain(t *testing.T, s *bundle) {
	no, user, coupon, url := s.lateWithCoupon()
	s.settlesAt(url, no)
	s.couponIs(user, coupon, "used")
	require.Equal(t, "its use", s.use(no), "used")
	s.couponEvents(no, 1, 0)
	s.couponsAgree()
}

// The backup has units, but the money is not what the closed order cost.
func lateMoneyOfAnotherAmountGoesBack(_ *testing.T, s *bundle) {
	s.exec(`UPDATE inventory.stock SET total = total + 1, backup = backup + 1 WHERE item_id = $1`, s.item)
	no, user := s.one(9900)
	coupon := s.issued(user, 900)
	former, url := s.startPayment(no, user)
	s.exec(`UPDATE payments.payments SET status = 'closed' WHERE payment_no = $1`, former) // the bank will not honour its close
	s.choose(no, user, coupon, 9000)
	s.closeBehindTheBank(no, user)
	s.payAt(url, sandbox.Normal)
	s.refundRequested(no, "late")
	s.orderIs(no, orderevent.StatusClosed)
	s.couponIs(user, coupon, "available")
	s.couponsAgree()
}

func theShopBearsACouponUsedElsewhere(t *testing.T, s *bundle) {
	no, user, coupon, url := s.lateWithCoupon()
	other := s.another(user, 1000)
	s.choose(other, user, coupon, 100)
	s.settlesAt(url, no)
	require.Equal(t, "the uses", [...]string{s.use(no), s.use(other)}, [...]string{"borne", "locked"})
	kind := read[int64](s, `SELECT kind_id FROM orders.coupons WHERE coupon_no = $1`, coupon)
	figures := s.staff(firstOperator, http.MethodGet, fmt.Sprintf("coupons/%d", kind), "").Doc
	got := []any{figures["borne"], figures["locked"], figures["used"], figures["issued"], figures["discount"].(map[string]any)["amount"]}
	require.Equal(t, "borne, locked, used, issued and the discount", got, []any{1.0, 1.0, 0.0, 1.0, 900.0})
	s.couponsAgree()
}

func oneCouponForTwoOrdersAtOneMoment(t *testing.T, s *bundle) {
	for range 5 {
		no, user := s.one(1000)
		orders := []ids.ID{no, s.another(user, 1000), s.another(user, 1000)}
		one, two := s.issued(user, 100), s.issued(user, 200)
		var g sync.WaitGroup
		for i, no := range orders {
			for _, coupon := range []string{one, two, ""}[:2+i%2] {
				g.Go(func() {
					a := s.post(user, "/api/v1/orders/"+no.String()+"/payments", fmt.Sprintf(`{"coupon":%q}`, coupon))
					if code := a.Text("code"); a.Status != http.StatusOK && code != "coupon-not-usable" && code != "order-closing" && code != "payment-unavailable" {
						t.Errorf("%d %v", a.Status, a.Doc)
					}
				})
			}
		}
		g.Wait()
		s.couponsAgree()
	}
}

// Whatever a shopper chooses while paying what was offered before, the order is paid
// once, by the money of its amount, and everything else goes back.
func choicesAndPaymentsAtOneMoment(t *testing.T, s *bundle) {
	for range 5 {
		no, user := s.one(1000)
		coupons := []string{s.issued(user, 100), s.issued(user, 200), ""}
		url := s.choose(no, user, coupons[0], 900).Text("pay_url")
		var g sync.WaitGroup
		for _, coupon := range coupons[1:] {
			g.Go(func() { s.post(user, "/api/v1/orders/"+no.String()+"/payments", fmt.Sprintf(`{"coupon":%q}`, coupon)) })
		}
		g.Go(func() {
			_, err := s.tryPost(0, url, fmt.Sprintf(`{"behaviour":%q}`, sandbox.Normal))
			if err != nil && !strings.Contains(err.Error(), "not JSON") {
				t.Error(err)
			}
		})
		g.Wait()
		if s.status(no) == orderevent.StatusPending { // the payment was closed before it was paid
			s.payAt(s.askToPay(no, user).Text("pay_url"), sandbox.Normal)
		}
		s.until("the order is paid", func() bool { return s.status(no) == orderevent.StatusPaid })
		s.couponsAgree()
	}
}
