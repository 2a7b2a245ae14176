package stock

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"stampede/platform/base/ids"
)

// Mark is a value of the users hash: the number, ":<quantity>" unless it is 1, and ":c" once the units are paid for;
// or the number and ":x", for units that were returned and whose user may not buy again.
type Mark struct {
	No       ids.ID
	Quantity int32 // 0 if closed
	Paid     bool
	Closed   bool
}

// ClosedSuffix ends the values of the users and buyers hashes that are not holds.
const ClosedSuffix = ":x"

// numberLen is the length of a number as text.
const numberLen = 32

func (m Mark) String() string {
	text := m.No.String()
	if m.Closed {
		return text + ClosedSuffix
	}
	if m.Quantity != 1 {
		text += ":" + strconv.FormatInt(int64(m.Quantity), 10)
	}
	if m.Paid {
		text += ":c"
	}
	return text
}

// Buyer is the mark's value in the buyers hash.
func (m Mark) Buyer(itemID int64) string {
	text := m.No.String() + ":" + strconv.FormatInt(itemID, 10)
	if m.Closed {
		text += ClosedSuffix
	}
	return text
}

// ParseBuyer reads a value of the buyers hash; ours is false if it is another item's.
func ParseBuyer(text string, itemID int64) (no ids.ID, closed, ours bool, err error) {
	text, closed = strings.CutSuffix(text, ClosedSuffix)
	number, ours := strings.CutSuffix(text, ":"+strconv.FormatInt(itemID, 10))
	if !ours {
		return ids.ID{}, false, false, nil
	}
	if no, err = ids.Parse(number); err != nil {
		return ids.ID{}, false, false, fmt.Errorf("inventory: buyer %q: %w", text, err)
	}
	return no, closed, true, nil
}

// ParseMark reads what the scripts write for a user: the number, then its units if there are several, and its state.
func ParseMark(text string) (Mark, error) {
	if len(text) < numberLen {
		return Mark{}, fmt.Errorf("inventory: user mark %q is too short", text)
	}
	no, err := ids.Parse(text[:numberLen])
	if err != nil {
		return Mark{}, fmt.Errorf("inventory: user mark %q: %w", text, err)
	}
	if text[numberLen:] == ClosedSuffix {
		return Mark{No: no, Closed: true}, nil
	}
	m := Mark{No: no, Quantity: 1}
	var rest string
	if rest, m.Paid = strings.CutSuffix(text[numberLen:], ":c"); rest == "" {
		return m, nil
	}
	units, ok := strings.CutPrefix(rest, ":")
	quantity, err := strconv.ParseInt(units, 10, 32)
	if !ok || err != nil || quantity < 1 {
		return Mark{}, fmt.Errorf("inventory: user mark %q has an invalid quantity", text)
	}
	m.Quantity = int32(quantity)
	return m, nil
}

// StaleHold is a grant without a known order row: an entry of the holds hash, "user:quantity:seq:ms" under its
// number, and ":<seconds>" if the payment window is shorter than the sale's.
type StaleHold struct {
	No        ids.ID
	User      int64
	Quantity  int32
	PayWithin int32 // seconds, see Attempt
	Seq       int64
	Epoch     int64
	Shard     int16     // in which it is
	At        time.Time // when it was granted, by Redis's clock
}

// ParseHold reads an entry of an epoch's holds hash.
func ParseHold(epoch int64, number, text string) (StaleHold, error) {
	no, err := ids.Parse(number)
	if err != nil {
		return StaleHold{}, fmt.Errorf("inventory: hold %q: %w", number, err)
	}
	parts := strings.Split(text, ":")
	if len(parts) != 4 && len(parts) != 5 {
		return StaleHold{}, fmt.Errorf("inventory: hold %q does not have four or five parts", text)
	}
	var v [5]int64
	for i, p := range parts {
		if v[i], err = strconv.ParseInt(p, 10, 64); err != nil {
			return StaleHold{}, fmt.Errorf("inventory: hold %q: %w", text, err)
		}
	}
	if v[1] < 1 || v[1] > 1<<31-1 {
		return StaleHold{}, fmt.Errorf("inventory: hold %q has an invalid quantity", text)
	}
	if len(parts) == 5 && v[4] < 1 || v[4] > 1<<31-1 {
		return StaleHold{}, fmt.Errorf("inventory: hold %q has an invalid payment window", text)
	}
	return StaleHold{
		No: no, User: v[0], Quantity: int32(v[1]), PayWithin: int32(v[4]), Seq: v[2], Epoch: epoch, At: time.UnixMilli(v[3]).UTC(),
	}, nil
}
