package order

import (
	"strings"
	"testing"

	"stampede/order/internal/orderdb"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
)

// FuzzCursor checks that a cursor is the number of a page's last row and
// nothing else.
func FuzzCursor(f *testing.F) {
	f.Add("", int64(0))
	f.Add("0198f2c8b5d07c3e9a4f1b2c3d4e5f60", int64(100))
	f.Add("0198F2C8-b5d0-7c3e-9a4f-1b2c3d4e5f60", int64(-1))
	f.Add("' OR 1=1 --", int64(1<<62))
	f.Fuzz(func(t *testing.T, cursor string, user int64) {
		before, err := (httpx.PageInput{Cursor: cursor}).BeforeNumber()
		switch {
		case err != nil && cursor == "":
			t.Fatalf("a list without a cursor: %v", err)
		case err != nil:
			return
		case cursor == "" && before != httpx.LastNumber:
			t.Fatalf("the list begins before %s", before)
		case cursor != "" && before.String() != strings.ToLower(strings.ReplaceAll(cursor, "-", "")):
			t.Fatalf("%q decoded as %s", cursor, before)
		}
		// The last row of a page is the cursor of the next page.
		no := ids.NewFor(user)
		next := placeOfRow(orderdb.OrdersOrder{OrderNo: no})
		if again, err := (httpx.PageInput{Cursor: next}).BeforeNumber(); err != nil || again != no {
			t.Fatalf("cursor %q of %s decoded as %s, %v", next, no, again, err)
		}
	})
}
