package payment

import (
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/payment/sandbox/sandboxtest"
	"stampede/payment/statement"
	"stampede/payment/stripe"
	"stampede/payment/stripe/standin"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/require"
)

// TestCompanysStatementBringsLostMoneyBack: a company took money, and its callback never
// arrived before the order was closed. Its statement shows that, and the money goes back
// through it.
func TestCompanysStatementBringsLostMoneyBack(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	var cfg stripe.Config
	bank := sandboxtest.Open(t, func(url string) []sandbox.Dialect {
		var company *standin.Company
		company, cfg = standin.Pair(url, time.Now, slog.New(slog.DiscardHandler))
		return []sandbox.Dialect{company}
	})
	client, err := stripe.New(cfg)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	shop := s.instance(options{}, client)
	rt := httpx.NewRouter(s.tokens, slog.New(slog.DiscardHandler), "shop", prometheus.NewRegistry())
	shop.Routes(rt)
	srv := httptest.NewServer(rt)
	t.Cleanup(srv.Close)

	no, user := s.one(4200)
	s.exec(`UPDATE orders.orders SET pay_deadline = now() + interval '45 minutes' WHERE order_no = $1`, no)
	p, err := shop.begin(t.Context(), no, user, way{})
	if err != nil || p.Provider != "stripe" || p.Handoff.Ref == "" {
		t.Fatalf("%+v, %v", p, err)
	}
	s.closeBehindTheBank(no, user)
	require.NoError(t, sandboxtest.Pay(p.Handoff))
	bank.Backdate(t, p.PaymentNo, 24*time.Hour)
	s.inBackground(shop.statements.Workers()[0].Run) // it fetches the day of its own accord, and Ask waits for that
	st, err := client.Query(t.Context(), provider.Payment{No: p.PaymentNo, Ref: p.Handoff.Ref})
	require.NoError(t, err)
	token, err := s.tokens.Mint(auth.Principal{UserID: 1, Role: auth.Operator}, time.Minute)
	require.NoError(t, err)
	day := st.Capture.At.UTC().Format(time.DateOnly)
	for _, want := range []struct {
		apply bool
		open  int
	}{{false, 1}, {true, 0}, {false, 0}} {
		if found, err := statement.Ask(t.Context(), srv.URL, token, day, "stripe", want.apply); err != nil || found.Open() != want.open {
			t.Fatalf("apply %t: %+v, %v, want %d differences", want.apply, found, err, want.open)
		}
	}
	s.refundRequested(no, "late")
	s.until("the money is back", func() bool {
		_, err := shop.refundDue(t.Context())
		return err == nil && s.refundOf(no) == "late succeeded"
	})
	s.booksAreRight()
}
