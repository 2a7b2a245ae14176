package seckill

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
)

// TestTextsAreLegible checks that a text is accepted if it is readable and does
// not affect the text around it.
func TestTextsAreLegible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"A phone":                    "",
		"限量版跑鞋（红）":                   "",
		"👩‍👩‍👧 ❤️ 1️⃣":               "", // joiners and variation selectors
		"هاتف نقال":                  "", // right to left without control characters
		"क्\u200dष":                  "", // a joiner that the script needs
		"":                           "1 to 5 characters",
		"too long":                   "1 to 5 characters",
		" \u00a0\u3000":              "no visible character",
		"\u200b":                     "no visible character",
		"\u200d\ufe0f":               "no visible character",
		"\u3164\u2800":               "no visible character",
		"a\u202eb":                   "direction of writing",
		"a\u2066b":                   "direction of writing",
		"a\nb":                       "line break",
		"a\u2028b":                   "line break",
		"a\x00b":                     "control character",
		"a\u0085b":                   "control character",
		"a\xffb":                     "UTF-8",
		"a" + string('\ufffd') + "b": "UTF-8",
	} {
		most := 20
		if strings.HasPrefix(want, "1 to 5") {
			most = 5
		}
		var f flaws
		f.text("body.title", text, 1, most)
		switch {
		case want == "" && len(f) > 0:
			t.Errorf("%q is refused: %s", text, f[0].Says[0])
		case want != "" && (len(f) != 1 || !strings.Contains(f[0].Says[0], want)):
			t.Errorf("%q: %d flaws, want one about %q: %v", text, len(f), want, f)
		}
	}
	var f flaws
	if f.text("body.spec", "", 0, 5); len(f) > 0 {
		t.Errorf("an empty text that may be empty: %s", f[0].Says[0])
	}
}

// TestBytesThatAreNotUTF8AreNotKept checks that they are refused: the decoder
// turns them into U+FFFD.
func TestBytesThatAreNotUTF8AreNotKept(t *testing.T) {
	t.Parallel()
	d := setup(t).instance()
	now := time.Now().UTC()
	body := `{"name":"` + "caf\xe9" + `","starts_at":"` + now.Format(time.RFC3339) + `","ends_at":"` + now.Add(time.Hour).Format(time.RFC3339) + `"}`
	r := d.as(auth.Operator, http.MethodPost, "/api/v1/admin/activities", body)
	if r.status != http.StatusUnprocessableEntity || !strings.Contains(string(r.raw), "not sent as UTF-8") {
		t.Errorf("%d %s", r.status, r.raw)
	}
}
