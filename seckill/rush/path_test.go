package rush

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
	"stampede/seckill/seckillevent"
)

func keys(t testing.TB, signing ...[]byte) *pathKeys {
	t.Helper()
	ring, err := newPathKeys(signing...)
	require.NoError(t, err)
	return ring
}

func anyToken(r *rapid.T) token {
	from := rapid.Int64Range(0, 1<<47).Draw(r, "from")
	t := token{
		user: rapid.Int64Min(1).Draw(r, "user"), item: rapid.Int64Min(1).Draw(r, "item"),
		quantity: rapid.Int32Range(1, 65535).Draw(r, "quantity"),
		from:     from, until: from + rapid.Int64Range(0, 1<<40).Draw(r, "life"),
	}
	t.no = ids.NewFor(t.user)
	if rapid.Bool().Draw(r, "restricted") {
		t.payWithin = rapid.Int32Range(1, 65535).Draw(r, "payWithin")
		t.from = rapid.Int64Range(pathEpoch, pathEpoch+1<<39).Draw(r, "from") // until 2037
		t.until = t.from + rapid.Int64Range(0, 1<<38).Draw(r, "life")
	}
	return t
}

func TestPathSaysWhatWasSigned(t *testing.T) {
	t.Parallel()
	ring := keys(t, seckilltest.Key)
	rapid.Check(t, func(r *rapid.T) {
		want := anyToken(r)
		path, err := ring.sign(want)
		require.NoError(r, err)
		if len(path) != pathTextBytes || strings.ContainsAny(path, "+/=") {
			r.Fatalf("path %q is not %d characters of base64url", path, pathTextBytes)
		}
		var got token
		require.NoError(r, ring.verify(path, &got))
		if got != want {
			r.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

// A path that differs in any one character from a signed one must be refused,
// even if the change only touches bits that base64 could ignore.
func TestPathRefusesEveryChange(t *testing.T) {
	t.Parallel()
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	ring := keys(t, seckilltest.Key)
	path, err := ring.sign(goldenToken)
	require.NoError(t, err)
	for i := range path {
		for _, c := range alphabet + "\n=+ \x00é" {
			forged := path[:i] + string(c) + path[i+1:]
			var got token
			if forged != path && ring.verify(forged, &got) == nil {
				t.Fatalf("accepted with character %d changed to %q", i, c)
			}
			if forged != path && got != (token{}) {
				t.Fatal("a refused path changed the token")
			}
		}
	}
	for _, forged := range []string{"", path[:len(path)-1], path + "A", path + "\n", strings.Repeat("A", pathTextBytes)} {
		if ring.verify(forged, new(token)) == nil {
			t.Fatalf("accepted %q", forged)
		}
	}
}

// Two keys may share their one-byte id; paths of both must still be accepted.
func TestPathKeysMayShareAnID(t *testing.T) {
	t.Parallel()
	first := keys(t, seckilltest.Key)
	var second *pathKeys
	var signing []byte
	for i := 0; second == nil; i++ {
		signing = append([]byte("another key, number "), byte(i), byte(i>>8))
		if ring := keys(t, signing); ring.keys[0].id == first.keys[0].id {
			second = ring
		}
	}
	both := keys(t, seckilltest.Key, signing)
	for _, ring := range []*pathKeys{first, second} {
		path, err := ring.sign(goldenToken)
		require.NoError(t, err)
		require.NoError(t, both.verify(path, new(token)))
	}
}

func TestSignRefusesTokensThatDoNotFit(t *testing.T) {
	t.Parallel()
	ring := keys(t, seckilltest.Key)
	for name, change := range map[string]func(*token){
		"no user":               func(t *token) { t.user = 0 },
		"no item":               func(t *token) { t.item = -1 },
		"no units":              func(t *token) { t.quantity = 0 },
		"too many units":        func(t *token) { t.quantity = 1 << 16 },
		"no number":             func(t *token) { t.no = ids.ID{} },
		"ends before it starts": func(t *token) { t.until = t.from - 1 },
		"ends too far off":      func(t *token) { t.until = 1 << 48 },
		"no time to pay":        func(t *token) { t.payWithin = -1 },
		"much time to pay":      func(t *token) { t.payWithin = 1 << 16 },
		"short and early":       func(t *token) { t.payWithin, t.from = 30, pathEpoch-1 },
		"short and late":        func(t *token) { t.payWithin, t.until = 30, pathEpoch+1<<40 },
	} {
		tok := goldenToken
		change(&tok)
		if path, err := ring.sign(tok); err == nil {
			t.Errorf("%s: signed as %q", name, path)
		}
	}
}

var goldenToken = token{
	user: 42, item: 7, quantity: 2,
	no:   ids.ID{0x01, 0x99, 0x1b, 0x2c, 0x3d, 0x4e, 0x70, 0x81, 0x92, 0xa3, 0xb4, 0xc5, 0xd6, 0xe7, 0x01, 0x23},
	from: 1_760_000_000_000, until: 1_760_000_120_000,
}

// goldenPath pins the format: instances of neighbouring versions serve one sale
// side by side during a roll-out.
const goldenPath = "ARkAAAAAAAAAKgAAAAAAAAAHAAIBmRssPU5wgZKjtMXW5wEjAZnILMAAAZnILpTAhbVXamRuG5bK124N3vmyWQ"

func TestPathGolden(t *testing.T) {
	t.Parallel()
	ring := keys(t, seckilltest.Key)
	path, err := ring.sign(goldenToken)
	require.NoError(t, err)
	require.Equal(t, "the format changed", path, goldenPath)
	raw, err := base64.RawURLEncoding.DecodeString(path)
	require.NoError(t, err)
	require.Equal(t, "version and key", raw[:2], []byte{pathVersion, ring.keys[0].id})
}

// A shorter payment window makes another version of the same length.
const goldenShortPath = "AhkAAAAAAAAAKgAAAAAAAAAHAAIBmRssPU5wgZKjtMXW5wEj"

func TestShortPathGolden(t *testing.T) {
	t.Parallel()
	ring := keys(t, seckilltest.Key)
	short := goldenToken
	short.payWithin = 30
	path, err := ring.sign(short)
	require.NoError(t, err)
	if len(path) != len(goldenPath) || !strings.HasPrefix(path, goldenShortPath) {
		t.Fatalf("the format changed: %s", path)
	}
	// The path's payment window is signed like everything else.
	raw, err := base64.RawURLEncoding.DecodeString(path)
	require.NoError(t, err)
	raw[pathWindowAt+1]++
	if ring.verify(base64.RawURLEncoding.EncodeToString(raw), new(token)) == nil {
		t.Fatal("a longer window was accepted")
	}
	raw[pathWindowAt+1]--
	raw[0] = pathVersion
	if ring.verify(base64.RawURLEncoding.EncodeToString(raw), new(token)) == nil {
		t.Fatal("a path without the window was accepted")
	}
}

func FuzzPathVerify(f *testing.F) {
	ring := keys(f, seckilltest.Key)
	f.Add(goldenPath)
	if short, err := ring.sign(token{user: 1, item: 1, quantity: 1, no: ids.NewFor(1), from: pathEpoch, until: pathEpoch, payWithin: 1}); err == nil {
		f.Add(short)
	}
	f.Add("")
	f.Add(strings.Repeat("A", pathTextBytes))
	f.Fuzz(func(t *testing.T, path string) {
		var got token
		if ring.verify(path, &got) != nil {
			return
		}
		// An accepted path must be the only spelling of its content.
		again, err := ring.sign(got)
		if err != nil || again != path {
			t.Fatalf("accepted %q, which signs as %q (%v)", path, again, err)
		}
	})
}

// published consumes the grants stream until so many grants were read.
func (y *bundle) published(n int) map[ids.ID]seckillevent.Grant {
	y.T.Helper()
	grants := map[ids.ID]seckillevent.Grant{}
	ctx, cancel := context.WithTimeout(y.T.Context(), 30*time.Second)
	defer cancel()
	err := y.Queue().Consume(ctx, func(_ context.Context, batch []bus.Msg) {
		for _, m := range batch {
			var b seckillevent.Batch
			if err := b.Decode(m.Data); err != nil {
				y.T.Error(err)
			}
			for _, g := range b.Grants {
				grants[g.No] = g
			}
			if err := m.Ack(); err != nil {
				y.T.Error(err)
			}
		}
		if len(grants) >= n {
			cancel()
		}
	})
	require.NoError(y.T, err)
	return grants
}

// A check at the door shortens the payment window; the path carries that, and
// so does the message to the order writer.
func TestAShorterPaymentWindowTravelsWithTheGrant(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10, func(it *catalogue.Item) { it.PayWindow = 24 * time.Hour })
	i := y.instance([]*catalogue.Item{it})
	i.rush.deps.ShortestPay = 20 * time.Second // of the providers
	windows := map[int64]time.Duration{
		1: 24 * time.Hour,          // not shortened
		2: 30 * time.Second,        //
		3: 5 * time.Second,         // too short for a provider to take the payment
		4: 48 * time.Hour,          // a check may not loosen
		5: 23 * time.Hour,          // more than a path can carry
		6: 1500 * time.Millisecond, // also too short
	}
	i.rush.deps.Admit = func(_ context.Context, a *Applicant) error {
		a.PayWithin = windows[a.User]
		return nil
	}
	want := map[int64]int32{1: 0, 2: 30, 3: 20, 4: 0, 5: 65535, 6: 20}
	numbers := map[int64]string{}
	for user := range windows {
		path := i.issue(user, it, 1)
		numbers[user] = path.OrderNo
		var tok token
		if err := i.rush.keys.verify(path.Path, &tok); err != nil || tok.payWithin != want[user] {
			t.Errorf("user %d: the path says %d s (%v), want %d", user, tok.payWithin, err, want[user])
		}
		i.send(path.Path).want(t, "", http.StatusAccepted, "")
	}
	got := y.published(len(windows))
	for user, no := range numbers {
		number, err := ids.Parse(no)
		require.NoError(t, err)
		if g := got[number]; g.PayWithin != want[user] {
			t.Errorf("user %d: the grant says %d s, want %d", user, g.PayWithin, want[user])
		}
	}
}

// A path that is usable later than the opening is refused before that time,
// although the opening itself is left to Redis within a second of tolerance.
func TestLaterAdmissionIsStrict(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it})
	later := time.Now().Add(time.Minute).Truncate(time.Millisecond)
	i.rush.deps.Admit = func(_ context.Context, a *Applicant) error {
		a.UsableFrom = later
		return nil
	}
	path := i.issue(1, it, 1)
	var tok token
	if err := i.rush.keys.verify(path.Path, &tok); err != nil || tok.from != later.UnixMilli() {
		t.Fatalf("%v, usable from %d", err, tok.from)
	}
	if v := i.rush.door(&tok, it, later.Add(-time.Millisecond)); v.outcome != outNotStarted || v.wait <= 0 {
		t.Errorf("a millisecond early: outcome %d after %s", v.outcome, v.wait)
	}
	require.Equal(t, "on time", i.rush.door(&tok, it, later).outcome, outNone)
}

func TestIssue(t *testing.T) {
	t.Parallel()
	y := setup(t)
	open := y.Item(5, func(it *catalogue.Item) { it.UserLimit = 3 })
	soon := y.Item(5, func(it *catalogue.Item) { it.OpensAt = it.OpensAt.Add(2 * time.Minute) })
	later := y.Item(5, func(it *catalogue.Item) { it.OpensAt = it.OpensAt.Add(4 * time.Minute) })
	over := *open
	over.ID, over.OnSale = 1000, false
	i := y.instance([]*catalogue.Item{open, soon, later, &over})

	p := i.issue(7, open, 3)
	var tok token
	if err := i.rush.keys.verify(p.Path, &tok); err != nil || tok.user != 7 || tok.quantity != 3 || tok.no.String() != p.OrderNo {
		t.Fatalf("%+v says %+v (%v)", p, tok, err)
	}
	if tok.no.Bucket() != ids.Bucket(7) || p.RushURL != "/api/v1/rush/"+p.Path {
		t.Fatalf("%+v", p)
	}
	i.rush.cfg.RushURL = "https://rush.example.com"
	if p := i.issue(7, open, 3); p.RushURL != "https://rush.example.com/api/v1/rush/"+p.Path {
		t.Errorf("with a name of its own: %+v", p)
	}
	i.rush.cfg.RushURL = ""
	life := PathLifetime
	expires, err := time.Parse(timeFormat, p.ExpiresAt)
	if left := time.Until(expires); err != nil || left > life || left < life-5*time.Second {
		t.Fatalf("open item: expires in %v (%v)", left, err)
	}
	p = i.issue(7, soon, 1)
	if p.UsableFrom != soon.OpensAt.UTC().Format(timeFormat) || p.ExpiresAt != soon.OpensAt.Add(life).UTC().Format(timeFormat) {
		t.Fatalf("an early path counts from the opening: %+v", p)
	}
	for name, c := range map[string]struct {
		item     int64
		quantity int32
		kind     fault.Kind
		code     string
	}{
		"unknown":    {999, 1, fault.NotFound, "not-found"},
		"ended":      {over.ID, 1, fault.Gone, "ended"},
		"too early":  {later.ID, 1, fault.TooEarly, "not-started"},
		"over limit": {open.ID, 4, fault.Invalid, "over-limit"},
	} {
		_, err := i.tryIssue(7, c.item, c.quantity)
		if f := fault.From(err); err == nil || f.Kind != c.kind || f.Code != c.code {
			t.Errorf("%s: %v", name, err)
		} else if c.kind == fault.TooEarly && (f.RetryAfter < 50*time.Second || f.RetryAfter > time.Minute) {
			t.Errorf("%s: Retry-After %v", name, f.RetryAfter)
		}
	}
}
