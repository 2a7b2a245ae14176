package paymentevent

import (
	"encoding/json"
	"strings"
	"testing"

	"stampede/platform/base/ids"
)

// same reads raw as an event, writes it and reads it again: an accepted event
// must mean the same after another round.
func same[E comparable](t *testing.T, raw []byte) {
	t.Helper()
	var first, second E
	if json.Unmarshal(raw, &first) != nil {
		return
	}
	out, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &second); err != nil || second != first {
		t.Fatalf("%s became %+v, then %+v, %v", raw, first, second, err)
	}
}

func FuzzEvents(f *testing.F) {
	const no = "0198f2c8b5d07c3e9a4f1b2c3d4e5f60"
	f.Add([]byte(`{"payment_no":"`+no+`","order_no":"`+no+`","user_id":"7","amount":100,"currency":"CNY"}`), int64(7), int64(100), "late")
	f.Add([]byte(`{"refund_no":"`+strings.ToUpper(no)+`","order_no":null,"user_id":"-7","reason":"\ud800"}`), int64(-1), int64(1<<62), "")
	f.Add([]byte(`{"user_id":7}`), int64(0), int64(0), "a\"b\x00")
	f.Fuzz(func(t *testing.T, raw []byte, user, amount int64, word string) {
		same[Captured](t, raw)
		same[Refunded](t, raw)
		same[Surplus](t, raw)
		same[Closed](t, raw)
		same[RefundFailed](t, raw)
		same[RefundAwaiting](t, raw)
		// JSON is text: invalid UTF-8 is replaced when it is written.
		word = strings.ToValidUTF8(word, "\ufffd")
		want := Refunded{Refund: Refund{RefundNo: ids.NewFor(user), OrderNo: ids.NewFor(user), UserID: user, Amount: amount, Currency: word, Reason: word}}
		out, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Refunded
		if err := json.Unmarshal(out, &got); err != nil || got != want {
			t.Fatalf("%+v decoded as %+v, %v", want, got, err)
		}
	})
}

// Events outlive the program that wrote them: pinned.
func TestEventsGolden(t *testing.T) {
	t.Parallel()
	const no = "0198f2c8b5d07c3e9a4f1b2c3d4e5f60"
	id, err := ids.Parse(no)
	if err != nil {
		t.Fatal(err)
	}
	for want, event := range map[string]any{
		`{"payment_no":"` + no + `","order_no":"` + no + `","user_id":"7","amount":100,"currency":"CNY"}`: Captured{
			PaymentNo: id, OrderNo: id, UserID: 7, Amount: 100, Currency: "CNY",
		},
		`{"refund_no":"` + no + `","order_no":"` + no + `","user_id":"7","amount":100,"currency":"CNY","reason":"late"}`: Refunded{
			Refund: Refund{RefundNo: id, OrderNo: id, UserID: 7, Amount: 100, Currency: "CNY", Reason: "late"},
		},
		`{"refund_no":"` + no + `","order_no":"` + no + `","user_id":"7","amount":100,"currency":"CNY","reason":"operator"}`: RefundAwaiting{
			Refund: Refund{RefundNo: id, OrderNo: id, UserID: 7, Amount: 100, Currency: "CNY", Reason: "operator"},
		},
		`{"refund_no":"` + no + `","order_no":"` + no + `","user_id":"7","amount":100,"currency":"CNY","reason":"late","detail":"no"}`: RefundFailed{
			Refund: Refund{RefundNo: id, OrderNo: id, UserID: 7, Amount: 100, Currency: "CNY", Reason: "late"}, Detail: "no",
		},
		`{"refund_no":"` + no + `","order_no":"` + no + `","user_id":"7","amount":100,"currency":"CNY","reason":"shopper","whole":true}`: Refunded{
			Refund: Refund{RefundNo: id, OrderNo: id, UserID: 7, Amount: 100, Currency: "CNY", Reason: "shopper"}, Whole: true,
		},
	} {
		if raw, err := json.Marshal(event); err != nil || string(raw) != want {
			t.Errorf("%s, %v, want %s", raw, err, want)
		}
	}
}
