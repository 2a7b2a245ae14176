package change

import (
	"bytes"
	"net/http"
	"strconv"
	"testing"
	"time"

	"stampede/platform/edge/auth"
)

// FuzzIdempotencyKey checks that, whatever key a client sends, a repetition has
// the same answer and no second effect, a different key is independent, and a
// refused key is reported as the client's error.
func FuzzIdempotencyKey(f *testing.F) {
	f.Add("k1", "k2")
	f.Add("a b", "a  b")
	f.Add("\xff\xfe", "钥匙")
	f.Add("'; DROP TABLE x; --", "%00")
	f.Add("\t", "e\u0301")
	d := setup(f).instance()
	s := d.Publish(time.Hour)
	path := "/api/v1/admin/items/" + s.Item + "/stock"
	total := func() int64 { return d.Number(`SELECT total FROM inventory.stock WHERE item_id = $1`, s.Item) }
	run := 0
	f.Fuzz(func(t *testing.T, key, other string) {
		d.T = t
		if total() > 1_000_000 || key == "" || other == "" {
			return // the stock is limited, and an empty key promises nothing
		}
		run++
		// Keys last for a day, so each run uses different ones. The separator keeps
		// run 1 with "1k" apart from run 11 with "k".
		prefix := strconv.Itoa(run) + ":"
		key, other = prefix+key, prefix+other
		before := total()
		first := d.As(auth.Operator, http.MethodPost, path, `{"add": 1}`, "Idempotency-Key", key)
		again := d.As(auth.Operator, http.MethodPost, path, `{"add": 1}`, "Idempotency-Key", key)
		if first.Status != again.Status || first.Status >= 500 {
			t.Fatalf("key %q: %d and then %d: %s", key, first.Status, again.Status, again.Raw)
		}
		added := int64(0)
		if first.Status == http.StatusOK {
			added = 1
		}
		if added == 1 && !bytes.Equal(first.Raw, again.Raw) {
			t.Fatalf("key %q: %s and then %s", key, first.Raw, again.Raw)
		}
		if got := total() - before; got != added {
			t.Fatalf("key %q: two requests, answered %d, added %d units", key, first.Status, got)
		}
		if added == 1 && key != other {
			if r := d.As(auth.Operator, http.MethodPost, path, `{"add": 2}`, "Idempotency-Key", other); r.Status == 422 && r.Text("code") == "idempotency-mismatch" {
				t.Fatalf("key %q is treated as %q", key, other)
			}
		}
	})
}
