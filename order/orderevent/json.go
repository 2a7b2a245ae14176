package orderevent

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends o as JSON that encoding/json can read back. It does not use
// reflection, because the order writer encodes every order for the cache, where
// reflection would cost as much as a tenth of Postgres's own work.
func (o *Order) AppendJSON(b []byte) []byte {
	b = append(b, `{"order_no":"`...)
	b, _ = o.No.AppendText(b) // hex digits cannot fail
	b = appendInt(b, `","user_id":"`, o.UserID)
	b = appendInt(b, `","item_id":"`, o.ItemID)
	b = appendInt(b, `","activity_id":"`, o.ActivityID)
	b = appendInt(b, `","session_id":"`, o.SessionID)
	b = append(b, '"')
	if o.Shard != 0 {
		b = appendInt(b, `,"shard":`, int64(o.Shard))
	}
	if o.PerActivity {
		b = append(b, `,"per_activity":true`...)
	}
	b = appendInt(b, `,"epoch":`, o.Epoch)
	b = appendInt(b, `,"quantity":`, int64(o.Quantity))
	b = appendInt(b, `,"unit_price":`, o.UnitPrice)
	if o.Freight != 0 {
		b = appendInt(b, `,"freight":`, o.Freight)
	}
	if o.Discount != 0 {
		b = appendInt(b, `,"discount":`, o.Discount)
	}
	b = appendString(b, `,"currency":`, o.Currency)
	b = appendString(b, `,"title":`, o.Title)
	b = appendString(b, `,"status":`, o.Status)
	if o.Reason != "" {
		b = appendString(b, `,"reason":`, o.Reason)
	}
	if o.Handover != "" {
		b = appendString(b, `,"handover":`, o.Handover)
	}
	b = appendInt(b, `,"version":`, int64(o.Version))
	b = appendTime(b, `,"pay_deadline":"`, o.PayDeadline)
	if !o.PaidAt.IsZero() {
		b = appendTime(b, `,"paid_at":"`, o.PaidAt)
	}
	b = appendTime(b, `,"created_at":"`, o.CreatedAt)
	b = appendTime(b, `,"updated_at":"`, o.UpdatedAt)
	return append(b, '}')
}

func appendInt(b []byte, key string, v int64) []byte {
	return strconv.AppendInt(append(b, key...), v, 10)
}

func appendTime(b []byte, key string, t time.Time) []byte {
	return append(t.AppendFormat(append(b, key...), time.RFC3339Nano), '"')
}

func appendString(b []byte, key, s string) []byte {
	b = append(b, key...)
	if plain(s) {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	quoted, _ := json.Marshal(s) // a string cannot fail
	return append(b, quoted...)
}

// plain reports whether s needs no escaping in JSON.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			return false
		}
	}
	return utf8.ValidString(s)
}
