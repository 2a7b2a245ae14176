package orderevent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"stampede/platform/base/ids"
)

// MaxPayloadBytes bounds one Changed payload. NATS accepts 1 MiB by default;
// half of it leaves room for headers and for a broker with a lower limit.
const MaxPayloadBytes = 512 << 10

// Layout is the newest layout of events that Decode reads, for
// bus.Subscription.Layout. Layout 2 is layout 1, the plain JSON, with an order that
// has lines (see Order.HasLines): a version that knows none of them would take its
// goods for its amount.
const Layout = 2

// layoutMark is the byte that precedes the JSON of layout 2.
const layoutMark = "\x02"

// group is how a payload carries orders: the orders of one batch differ in
// number, user and quantity only, so everything else is written once. That is a
// tenth of their plain JSON, for Postgres to store, NATS to sync and every
// consumer to read.
type group struct {
	Of       Order   `json:"of"` // the first order; the others share all but the columns
	No       numbers `json:"no"`
	User     []int64 `json:"user"`
	Quantity []int32 `json:"quantity"`
}

// numbers is a column of order numbers. It decodes itself, because
// encoding/json would take as long for the numbers alone as for everything else
// of an event.
type numbers []ids.ID

// UnmarshalJSON reads an array of strings. encoding/json has made sure that raw
// is one JSON value, so the next quotation mark is where a string begins or
// ends.
func (ns *numbers) UnmarshalJSON(raw []byte) error {
	*ns = make(numbers, 0, len(raw)/len(`"0198f2c8b5d07c3e9a4f1b2c3d4e5f60",`)+1)
	rest := bytes.TrimSpace(raw)
	if len(rest) < 2 || rest[0] != '[' {
		return errors.New("orderevent: the order numbers are not an array")
	}
	for rest = bytes.TrimLeft(rest[1:], " \t\r\n,"); rest[0] != ']'; rest = bytes.TrimLeft(rest, " \t\r\n,") {
		if rest[0] != '"' {
			return errors.New("orderevent: an order number is not a string")
		}
		end := bytes.IndexByte(rest[1:], '"') + 1
		var no ids.ID
		if err := no.UnmarshalText(rest[1:end]); err != nil {
			return err
		}
		*ns = append(*ns, no)
		rest = rest[end+1:]
	}
	return nil
}

// maxColumnsBytes is the most that one order adds to a group: 32 digits in
// quotes, an int64, an int32, three commas.
const maxColumnsBytes = 34 + 20 + 11 + 3

// Pack encodes orders as events, in order, each at most MaxPayloadBytes, in the
// lowest layout that older versions do not misread. No orders make no event. It fails for a
// time that JSON cannot carry.
func Pack(orders []Order) ([][]byte, error) {
	for i := range orders { // by index: an order is a quarter of a kilobyte, and a batch of a rush has thousands
		if orders[i].HasLines() {
			return pack(layoutMark, orders)
		}
	}
	return pack("", orders)
}

func pack(mark string, orders []Order) (payloads [][]byte, err error) {
	const tail = `]}`
	head := mark + `{"groups":[`
	for payload := []byte(head); len(orders) > 0; {
		n := 0
		if payload, n, err = appendGroup(payload, orders, MaxPayloadBytes-len(payload)-len(tail)-1); err != nil {
			return nil, err
		}
		// An empty payload has room for one order at least.
		if orders = orders[n:]; n == 0 || len(orders) == 0 {
			payloads = append(payloads, append(payload, tail...))
			payload = []byte(head)
		}
	}
	return payloads, nil
}

// appendGroup appends the orders at the front that can share a group, as many as
// fit into room bytes, and returns how many these are.
func appendGroup(b []byte, orders []Order, room int) ([]byte, int, error) {
	first := &orders[0]
	of, err := json.Marshal(first)
	if err != nil {
		return b, 0, fmt.Errorf("orderevent: order %s: %w", first.No, err)
	}
	const rest = len(`{"of":,"no":[],"user":[],"quantity":[]}`)
	most := (room - len(of) - rest) / maxColumnsBytes
	n := 0
	for n < len(orders) && n < most && together(first, &orders[n]) {
		n++
	}
	if n == 0 {
		return b, 0, nil
	}
	if b[len(b)-1] == '}' {
		b = append(b, ',') // behind another group
	}
	b = slices.Grow(b, len(of)+rest+n*maxColumnsBytes)
	b = append(append(append(b, `{"of":`...), of...), `,"no":[`...)
	for i := range n {
		b = append(comma(b, i), '"')
		b, _ = orders[i].No.AppendText(b) // hex digits cannot fail
		b = append(b, '"')
	}
	b = append(b, `],"user":[`...)
	for i := range n {
		b = strconv.AppendInt(comma(b, i), orders[i].UserID, 10)
	}
	b = append(b, `],"quantity":[`...)
	for i := range n {
		b = strconv.AppendInt(comma(b, i), int64(orders[i].Quantity), 10)
	}
	return append(b, `]}`...), n, nil
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ',')
	}
	return b
}

// together reports whether two orders differ in the columns only.
func together(a, b *Order) bool {
	same := *b
	same.No, same.UserID, same.Quantity = a.No, a.UserID, a.Quantity
	// Times are compared as instants: the zone is not part of the event.
	if !same.PayDeadline.Equal(a.PayDeadline) || !same.PaidAt.Equal(a.PaidAt) || !same.CreatedAt.Equal(a.CreatedAt) || !same.UpdatedAt.Equal(a.UpdatedAt) {
		return false
	}
	same.PayDeadline, same.PaidAt, same.CreatedAt, same.UpdatedAt = a.PayDeadline, a.PaidAt, a.CreatedAt, a.UpdatedAt
	return same == *a
}

// MarshalJSON writes what Pack writes in layout 1. It fails if the orders need more than
// one payload: then they need several events, which Pack makes.
func (c Changed) MarshalJSON() ([]byte, error) {
	switch payloads, err := pack("", c.Orders); {
	case err != nil:
		return nil, err
	case len(payloads) == 0:
		return []byte(`{"groups":[]}`), nil
	case len(payloads) == 1:
		return payloads[0], nil
	default:
		return nil, fmt.Errorf("orderevent: %d orders do not fit one event", len(c.Orders))
	}
}

// Decode reads an event that Pack wrote.
func Decode(event []byte) (c Changed, err error) {
	err = c.UnmarshalJSON(bytes.TrimPrefix(event, []byte(layoutMark)))
	return c, err
}

// UnmarshalJSON reads an event of layout 1.
func (c *Changed) UnmarshalJSON(raw []byte) error {
	var payload struct {
		Groups []group `json:"groups"`
	}
	if err := json.Unmarshal(raw, &payload); err != nil {
		return fmt.Errorf("orderevent: %w", err)
	}
	c.Orders = []Order{}
	for i := range payload.Groups {
		g := &payload.Groups[i]
		if len(g.User) != len(g.No) || len(g.Quantity) != len(g.No) {
			return fmt.Errorf("orderevent: a group of %d numbers has %d users and %d quantities", len(g.No), len(g.User), len(g.Quantity))
		}
		c.Orders = slices.Grow(c.Orders, len(g.No))
		for j := range g.No {
			o := g.Of
			o.No, o.UserID, o.Quantity = g.No[j], g.User[j], g.Quantity[j]
			c.Orders = append(c.Orders, o)
		}
	}
	return nil
}
