package orderevent

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// MaxPayloadBytes bounds one Changed payload. NATS takes 1 MiB by default; half
// of it leaves room for headers and for a broker set up more tightly.
const MaxPayloadBytes = 512 << 10

// payloadTailBytes is what closes a payload: "]}".
const payloadTailBytes = 2

// orderHintBytes is about what one order takes as JSON; buffers start with it.
const orderHintBytes = 512

// Packed is the JSON of many orders: as Changed payloads, each at most
// MaxPayloadBytes, and each order's own.
type Packed struct {
	Payloads [][]byte
	// Each holds one order's JSON, in order; the slices are parts of Payloads, so
	// neither may be changed.
	Each [][]byte
}

// Pack encodes every order once, for its event and for the cache alike. With
// no orders it has no payloads.
func Pack(orders []Order) Packed {
	const head = `{"orders":[`
	p := Packed{Each: make([][]byte, 0, len(orders))}
	var buf []byte
	for i := range orders {
		if buf == nil {
			room := min((len(orders)-i)*orderHintBytes+len(head), MaxPayloadBytes)
			buf = append(make([]byte, 0, room), head...)
		}
		start := len(buf)
		if start > len(head) {
			buf = append(buf, ',')
			start++
		}
		buf = orders[i].AppendJSON(buf)
		if len(buf)+payloadTailBytes > MaxPayloadBytes && start > len(head) {
			// One order too many: it opens the next payload. The slices in Each stay
			// valid when buf grew meanwhile, they only point to the older array.
			moved := buf[start:]
			p.Payloads = append(p.Payloads, append(buf[:start-1:start-1], "]}"...))
			buf = append(append(make([]byte, 0, MaxPayloadBytes), head...), moved...)
			start = len(head)
		}
		p.Each = append(p.Each, buf[start:len(buf):len(buf)])
	}
	if buf != nil {
		p.Payloads = append(p.Payloads, append(buf, "]}"...))
	}
	return p
}

// AppendJSON appends o as encoding/json would read it back. It is written by
// hand because every order is encoded on the way of the order writer, where
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
	b = appendString(b, `,"currency":`, o.Currency)
	b = appendString(b, `,"title":`, o.Title)
	b = appendString(b, `,"status":`, o.Status)
	if o.Reason != "" {
		b = appendString(b, `,"reason":`, o.Reason)
	}
	b = appendInt(b, `,"version":`, int64(o.Version))
	b = appendTime(b, `,"pay_deadline":"`, o.PayDeadline)
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

// plain reports whether s is JSON text as it stands.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			return false
		}
	}
	return utf8.ValidString(s)
}
