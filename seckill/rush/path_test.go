package rush

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
	"stampede/seckill/internal/seckilltest"
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
		if err := ring.verify(path, &got); err != nil {
			r.Fatalf("own path refused: %v", err)
		}
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

func TestPathOfAnotherKeyIsRefusedUntilListed(t *testing.T) {
	t.Parallel()
	before, after := []byte("the key of yesterday, 32 bytes.."), []byte("the key of tomorrow, 32 bytes...")
	path, err := keys(t, before).sign(goldenToken)
	require.NoError(t, err)
	if keys(t, after).verify(path, new(token)) == nil {
		t.Fatal("a path of an unknown key was accepted")
	}
	rotated := keys(t, after, before)
	if err := rotated.verify(path, new(token)); err != nil {
		t.Fatalf("rotation refused a fresh path: %v", err)
	}
	fresh, err := rotated.sign(goldenToken)
	require.NoError(t, err)
	if err := keys(t, after).verify(fresh, new(token)); err != nil {
		t.Fatalf("after a rotation paths are signed with the new key: %v", err)
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
	if d := cmp.Diff([]byte{pathVersion, ring.keys[0].id}, raw[:2]); d != "" {
		t.Fatal(d)
	}
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

func TestPathVerifyAllocatesNothing(t *testing.T) {
	ring := keys(t, seckilltest.Key)
	forged := strings.Replace(goldenPath, "A", "B", 1)
	var tok token
	if n := testing.AllocsPerRun(1000, func() {
		_ = ring.verify(goldenPath, &tok)
		_ = ring.verify(forged, &tok)
		_ = ring.verify("short", &tok)
	}); n >= 1 && !raceEnabled {
		t.Fatalf("%v allocations", n)
	}
}
