package payment

import (
	"bytes"
	"encoding/base64"
	"image/png"
	"log/slog"
	"strings"
	"testing"

	"stampede/payment/internal/paymentdb"
	"stampede/payment/provider"
)

func TestCodeToScanIsDrawn(t *testing.T) {
	t.Parallel()
	s := &Service{deps: Deps{Log: slog.New(slog.DiscardHandler)}}
	for text, drawn := range map[string]bool{"weixin://wxpay/bizpayurl?pr=p4lpSuKzz": true, strings.Repeat("long", 1000): false, "": false} {
		v := s.started(t.Context(), paymentdb.PaymentsPayment{Handoff: provider.Handoff{QR: text}})
		encoded, ok := strings.CutPrefix(v.QRImage, "data:image/png;base64,")
		if ok != drawn || v.QRCode != text {
			t.Fatalf("the answer for a code of %d bytes: %.60q and the text %.20q", len(text), v.QRImage, v.QRCode)
		}
		if raw, err := base64.StdEncoding.DecodeString(encoded); drawn {
			if _, err2 := png.Decode(bytes.NewReader(raw)); err != nil || err2 != nil {
				t.Errorf("the picture is none: %v, %v", err, err2)
			}
		}
	}
}
