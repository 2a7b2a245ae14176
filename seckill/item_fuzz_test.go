package seckill

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"
)

// FuzzImageURL: whatever is accepted is something that a browser only loads.
func FuzzImageURL(f *testing.F) {
	for _, s := range []string{"", "https://img.example/p.png", "javascript:alert(1)", "HTTPS://h", "//h/p", "http://u@h", "https://h\n", "https://"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !validImage(s) || s == "" {
			return
		}
		u, err := url.Parse(s)
		web := strings.HasPrefix(strings.ToLower(s), "http://") || strings.HasPrefix(strings.ToLower(s), "https://")
		if err != nil || u.Host == "" || !web {
			t.Errorf("accepted %q", s)
		}
		if strings.ContainsAny(s, "\x00\n\r\t") || len(s) > maxImageURLBytes {
			t.Errorf("accepted %q", s)
		}
	})
}

// FuzzPlace: a cursor is read as what it was written from, or refused.
func FuzzPlace(f *testing.F) {
	f.Add("", int64(0), uint8(0), int64(0), int64(1))
	f.Add("MTIgMSAzNCA1", int64(-1), partEnded, int64(-1<<63), int64(1<<62)) // 12 1 34 5
	f.Add("MTIgOSAzNCA1", int64(1), uint8(9), int64(1), int64(1))            // 12 9 34 5
	f.Fuzz(func(t *testing.T, cursor string, at int64, part uint8, key, id int64) {
		if p, err := readPlace(cursor); err == nil && cursor != "" {
			if again, err := readPlace(p.cursor()); err != nil || again != p {
				t.Errorf("%q: %v, then %v %v", cursor, p, again, err)
			}
		}
		want := place{at, part, key, id}
		if p, err := readPlace(want.cursor()); (err == nil) != (part <= partEnded) || err == nil && p != want {
			t.Errorf("%v: %v %v", want, p, err)
		}
	})
}

// FuzzParseView: what Redis holds is read or refused, never a panic.
func FuzzParseView(f *testing.F) {
	f.Add(`{"id":"1","opens_at":"2026-11-11T00:00:00Z"}`, `{"id":"2"}`)
	f.Add(`{}`, `[]`)
	f.Fuzz(func(t *testing.T, header, item string) {
		v, ok, err := parseView(map[string]string{viewSessionField: header, viewItemPrefix + "2": item})
		if err == nil && (!ok || len(v.items) != 1) {
			t.Errorf("%q %q: %v with %d items", header, item, ok, len(v.items))
		}
	})
}

// TestPartsOfViews: how ids, moments and money travel.
func TestPartsOfViews(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(struct {
		A rowID
		B timestamp
		C money
	}{9007199254740993, timestamp(time.Date(2026, 11, 11, 20, 0, 0, 5_999_999, time.FixedZone("", 8*3600))), money{1, "CNY"}})
	if want := `{"A":"9007199254740993","B":"2026-11-11T12:00:00.005Z","C":{"amount":1,"currency":"CNY"}}`; err != nil || string(raw) != want {
		t.Errorf("%s %v, want %s", raw, err, want)
	}
	for _, s := range []string{`"0"`, `"-1"`, `"x"`, `7`, `""`} {
		var id rowID
		if err := json.Unmarshal([]byte(s), &id); err == nil {
			t.Errorf("%s was read as %v", s, id)
		}
	}
}
