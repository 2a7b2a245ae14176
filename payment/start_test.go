package payment

import (
	"context"
	"encoding/base64"
	"image/png"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/payment/internal/paymentdb"
	"stampede/payment/provider"
	"stampede/platform/workshop/require"
)

func TestCodeToScanIsDrawn(t *testing.T) {
	t.Parallel()
	s := &checkout{gateway: &gateway{deps: Deps{Log: slog.New(slog.DiscardHandler)}}}
	for text, drawn := range map[string]bool{"weixin://wxpay/bizpayurl?pr=p4lpSuKzz": true, strings.Repeat("long", 1000): false, "": false} {
		v := s.started(t.Context(), paymentdb.PaymentsPayment{Handoff: provider.Handoff{QR: text}})
		encoded, ok := strings.CutPrefix(v.QRImage, "data:image/png;base64,")
		if ok != drawn || v.QRCode != text {
			t.Fatalf("the answer for a code of %d bytes: %.60q and the text %.20q", len(text), v.QRImage, v.QRCode)
		}
		if drawn {
			_, err := png.Decode(base64.NewDecoder(base64.StdEncoding, strings.NewReader(encoded)))
			require.NoError(t, err)
		}
	}
}

// endsFirst ends an order's open payment before it is read.
type endsFirst struct {
	paymentdb.DBTX
	s *bundle
}

func (d endsFirst) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if strings.Contains(sql, "-- name: OpenPayment ") {
		d.s.exec(`UPDATE payments.payments SET status = 'closed' WHERE order_no = $1`, args[0]) //nolint:contextcheck // the test's
	}
	return d.DBTX.QueryRow(ctx, sql, args...)
}

// A payment is closed, or captured in another amount, without the order's lock.
func theOpenPaymentEndsWhileAnotherIsStarted(t *testing.T, s *bundle) {
	no, user := s.one(100)
	first, err := s.begin(t.Context(), no, user, way{})
	require.NoError(t, err)
	offers, err := s.offers(way{})
	require.NoError(t, err)
	o := orderevent.Order{No: no, UserID: user, Status: orderevent.StatusPending, Quantity: 1, UnitPrice: 100, Currency: "CNY", PayDeadline: first.ExpiresAt}
	p, made, err := s.openRow(t.Context(), paymentdb.New(endsFirst{s.db, s}), no, o, offers)
	if err != nil || !made || p.PaymentNo == first.PaymentNo {
		t.Errorf("another payment %t, %v", made, err)
	}
}
