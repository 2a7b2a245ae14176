package inventory

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"stampede/platform/base/ids"
)

// mark is a value of the users hash: the number, ":<quantity>" unless it is 1,
// and ":c" once the units are paid for; or the number and ":x", for units that
// were returned and whose user may not buy again.
type mark struct {
	no       ids.ID
	quantity int32 // 0 if closed
	paid     bool
	closed   bool
}

// closedSuffix ends the values of the users and buyers hashes that are not
// holds.
const closedSuffix = ":x"

// numberLen is the length of a number as text.
const numberLen = 32

func (m mark) String() string {
	text := m.no.String()
	if m.closed {
		return text + closedSuffix
	}
	if m.quantity != 1 {
		text += ":" + strconv.FormatInt(int64(m.quantity), 10)
	}
	if m.paid {
		text += ":c"
	}
	return text
}

// buyer is the mark's value in the buyers hash.
func (m mark) buyer(itemID int64) string {
	text := m.no.String() + ":" + strconv.FormatInt(itemID, 10)
	if m.closed {
		text += closedSuffix
	}
	return text
}

// parseBuyer reads a value of the buyers hash; ours is false if it is another
// item's.
func parseBuyer(text string, itemID int64) (no ids.ID, closed, ours bool, err error) {
	text, closed = strings.CutSuffix(text, closedSuffix)
	number, ours := strings.CutSuffix(text, ":"+strconv.FormatInt(itemID, 10))
	if !ours {
		return ids.ID{}, false, false, nil
	}
	if no, err = ids.Parse(number); err != nil {
		return ids.ID{}, false, false, fmt.Errorf("inventory: buyer %q: %w", text, err)
	}
	return no, closed, true, nil
}

// parseMark reads what the scripts write for a user: the number, then its units
// if there are several, and its state.
func parseMark(text string) (mark, error) {
	if len(text) < numberLen {
		return mark{}, fmt.Errorf("inventory: user mark %q is too short", text)
	}
	no, err := ids.Parse(text[:numberLen])
	if err != nil {
		return mark{}, fmt.Errorf("inventory: user mark %q: %w", text, err)
	}
	if text[numberLen:] == closedSuffix {
		return mark{no: no, closed: true}, nil
	}
	m := mark{no: no, quantity: 1}
	var rest string
	if rest, m.paid = strings.CutSuffix(text[numberLen:], ":c"); rest == "" {
		return m, nil
	}
	units, ok := strings.CutPrefix(rest, ":")
	quantity, err := strconv.ParseInt(units, 10, 32)
	if !ok || err != nil || quantity < 1 {
		return mark{}, fmt.Errorf("inventory: user mark %q has an invalid quantity", text)
	}
	m.quantity = int32(quantity)
	return m, nil
}

// openHold is a value of the holds hash: "user:quantity:seq:ms", and ":<seconds>"
// if the payment window differs from the sale's.
type openHold struct {
	user     int64
	quantity int32
	seq      int64
	at       time.Time // when it was granted, by Redis's clock
	within   int32     // seconds, see Attempt.PayWithin
}

// parseOpenHold reads user, units, sequence, the time of the grant, and the
// payment window if there is one.
func parseOpenHold(text string) (openHold, error) {
	parts := strings.Split(text, ":")
	if len(parts) != 4 && len(parts) != 5 {
		return openHold{}, fmt.Errorf("inventory: hold %q does not have four or five parts", text)
	}
	var v [5]int64
	for i, p := range parts {
		n, err := strconv.ParseInt(p, 10, 64)
		if err != nil {
			return openHold{}, fmt.Errorf("inventory: hold %q: %w", text, err)
		}
		v[i] = n
	}
	if v[1] < 1 || v[1] > 1<<31-1 {
		return openHold{}, fmt.Errorf("inventory: hold %q has an invalid quantity", text)
	}
	if len(parts) == 5 && v[4] < 1 || v[4] > 1<<31-1 {
		return openHold{}, fmt.Errorf("inventory: hold %q has an invalid payment window", text)
	}
	return openHold{user: v[0], quantity: int32(v[1]), seq: v[2], at: time.UnixMilli(v[3]).UTC(), within: int32(v[4])}, nil
}
