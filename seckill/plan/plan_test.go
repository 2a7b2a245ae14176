package plan

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/platform/base/config"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilldb"
)

// TestPayWindow checks a share of a session: whole seconds, between ten seconds
// and seven days.
func TestPayWindow(t *testing.T) {
	t.Parallel()
	share := func(f float64) *float64 { return &f }
	for _, c := range []struct {
		session time.Duration
		share   *float64
		want    time.Duration
	}{
		{time.Hour, nil, 15 * time.Minute},
		{time.Hour, share(1), time.Hour},
		{time.Hour, share(0.25), 15 * time.Minute},
		{100 * time.Second, share(0.333), 33 * time.Second},
		{100 * time.Second, share(0.01), 10 * time.Second},
		{60 * 24 * time.Hour, share(0.5), 7 * 24 * time.Hour},
	} {
		now := time.Now()
		a := seckilldb.SeckillActivity{PaymentWindowSeconds: 900, PaymentWindowShare: c.share}
		got := PayWindow(&a, &seckilldb.SeckillSession{OpensAt: now, ClosesAt: now.Add(c.session)})
		require.Equal(t, fmt.Sprint("share ", c.share, " of ", c.session), got, c.want)
	}
}

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
		var f Flaws
		f.Text("body.title", text, 1, most)
		switch {
		case want == "" && len(f) > 0:
			t.Errorf("%q is refused: %s", text, f[0].Says[0])
		case want != "" && (len(f) != 1 || !strings.Contains(f[0].Says[0], want)):
			t.Errorf("%q: %d flaws, want one about %q: %v", text, len(f), want, f)
		}
	}
	var f Flaws
	if f.Text("body.spec", "", 0, 5); len(f) > 0 {
		t.Errorf("an empty text that may be empty: %s", f[0].Says[0])
	}
}

// TestPreheatTimes checks when items are loaded.
func TestPreheatTimes(t *testing.T) {
	t.Parallel()
	cfg := NewConfig(config.Defaults[Settings]())
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		require.NoError(t, err)
		return v
	}
	opens := at("2026-11-11T10:00:00+08:00")
	require.Equal(t, "by the lead", NewPublished(cfg, nil).preheatAt(opens), at("2026-11-11T09:30:00+08:00"))
	cfg.PreheatAtMidnight = true
	require.Equal(t, "at midnight", NewPublished(cfg, nil).preheatAt(opens), at("2026-11-11T00:00:00+08:00"))
	require.Equal(t, "ten minutes past midnight", NewPublished(cfg, nil).preheatAt(at("2026-11-11T00:10:00+08:00")), at("2026-11-10T23:40:00+08:00"))
}

// TestUnitsOnSale checks that the share is rounded down, never below the stock
// and never above the agreement.
func TestUnitsOnSale(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		i := seckilldb.SeckillItem{Stock: rapid.Int32Range(0, MaxStock).Draw(t, "stock"), OversellPercent: int16(rapid.IntRange(0, maxOversellPercent).Draw(t, "percent"))}
		beyond := int64(UnitsOnSale(&i) - i.Stock)
		if share := int64(i.Stock) * int64(i.OversellPercent); beyond*100 > share || (beyond+1)*100 <= share {
			t.Fatalf("%d units beyond %d at %d %%", beyond, i.Stock, i.OversellPercent)
		}
	})
}

// FuzzImageURL checks that a browser only loads an accepted URL and never
// executes it.
func FuzzImageURL(f *testing.F) {
	for _, s := range []string{"", "https://img.example/p.png", "javascript:alert(1)", "HTTPS://h", "//h/p", "http://u@h", "https://h\n", "https://", "/p.png", "/\\h/p", "http://h/p"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !validImage(s) || s == "" {
			return
		}
		u, err := url.Parse(s)
		own := strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//") && !strings.HasPrefix(s, `/\`)
		if err != nil || !own && (u.Host == "" || !strings.HasPrefix(strings.ToLower(s), "https://")) {
			t.Errorf("accepted %q", s)
		}
		if strings.ContainsAny(s, "\x00\n\r\t") || len(s) > maxImageURLBytes {
			t.Errorf("accepted %q", s)
		}
	})
}

// FuzzPayWindow checks that, whatever an operator sets as a duration or as a
// share of the session, orders may stay unpaid for at least the shortest window
// and at most the longest, in whole seconds.
func FuzzPayWindow(f *testing.F) {
	f.Add(int32(900), false, 0.0, int64(3600))
	f.Add(int32(10), true, 0.5, int64(7200))
	f.Add(int32(0), true, 1e-300, int64(1<<40))
	f.Add(int32(-1), true, 1.0, int64(10))
	f.Fuzz(func(t *testing.T, seconds int32, shared bool, share float64, length int64) {
		opens := time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC)
		// A session lies within its activity, which ends before the year 10000.
		closes := opens.Add(min(max(time.Duration(length), 0), 1<<33) * time.Second)
		a := seckilldb.SeckillActivity{
			Name: "a", StartsAt: opens, EndsAt: closes, LimitPerUser: 1, PaymentWindowSeconds: seconds,
		}
		if shared {
			a.PaymentWindowShare = &share
		}
		s := seckilldb.SeckillSession{Name: "s", OpensAt: opens, ClosesAt: closes}
		var fl Flaws
		fl.Activity(&a, false)
		fl.Session("body", &s, &a)
		window := PayWindow(&a, &s)
		if fl.Err() == nil && (window < MinPayWindow || window > maxPayWindow || window%time.Second != 0) {
			t.Fatalf("%d s or the share %v of %s gives %s", seconds, a.PaymentWindowShare, closes.Sub(opens), window)
		}
	})
}
