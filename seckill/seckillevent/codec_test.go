package seckillevent

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"stampede/platform/base/ids"
)

func drawBatch(t *rapid.T) Batch {
	id := rapid.Custom(func(t *rapid.T) (id ids.ID) {
		copy(id[:], rapid.SliceOfN(rapid.Byte(), len(id), len(id)).Draw(t, "id"))
		id[0] |= 1 // never the zero id, which Decode refuses for a batch
		return id
	})
	positive := rapid.Int64Range(1, 1<<63-1)
	b := Batch{
		ID: id.Draw(t, "ID"), ItemID: positive.Draw(t, "ItemID"), ActivityID: positive.Draw(t, "ActivityID"),
		SessionID: positive.Draw(t, "SessionID"), Shard: rapid.Int16Min(0).Draw(t, "Shard"),
		Epoch: rapid.Int64Min(0).Draw(t, "Epoch"), UnitPrice: rapid.Int64Range(0, MaxUnitPrice).Draw(t, "UnitPrice"),
		Currency: rapid.StringMatching(`[A-Z]{3}`).Draw(t, "Currency"), Title: rapid.StringMatching(`[^\x00]{0,120}`).Draw(t, "Title"),
		PayWindow:   time.Duration(rapid.Int64Range(0, int64(MaxPayWindow)).Draw(t, "PayWindow")),
		PerActivity: rapid.Bool().Draw(t, "PerActivity"), Grants: []Grant{},
	}
	for range rapid.IntRange(0, 40).Draw(t, "count") {
		// Any value of a grant survives, valid or not: the reader judges it.
		g := Grant{
			No: id.Draw(t, "No"), User: rapid.Int64().Draw(t, "User"),
			Quantity: rapid.Int32().Draw(t, "Quantity"), Seq: rapid.Int64().Draw(t, "Seq"),
		}
		if rapid.IntRange(0, 9).Draw(t, "restricted") == 0 {
			g.PayWithin = rapid.Int32Range(1, int32(MaxPayWindow/time.Second)).Draw(t, "PayWithin")
		}
		b.Grants = append(b.Grants, g)
	}
	return b
}

func TestBatchRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := drawBatch(t)
		prefix := []byte("kept")
		data := want.Encode(prefix)
		if !bytes.HasPrefix(data, prefix) {
			t.Fatalf("Encode did not append: %q", data[:4])
		}
		got := Batch{Grants: make([]Grant, 3)} // reused grants must leave no trace
		if err := got.Decode(data[len(prefix):]); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestDecodeRefusesEveryCut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := drawBatch(t)
		data := b.Encode(nil)
		cut := rapid.IntRange(0, len(data)-1).Draw(t, "cut")
		var got Batch
		if err := got.Decode(data[:cut]); !errors.Is(err, ErrMalformed) {
			t.Fatalf("cut at %d of %d: %v", cut, len(data), err)
		}
		if err := got.Decode(append(data, 0)); !errors.Is(err, ErrMalformed) {
			t.Fatalf("one byte too many: %v", err)
		}
	})
}

func valid() Batch {
	return Batch{
		ID: ids.New(), ItemID: 1, ActivityID: 2, SessionID: 3, Epoch: 4, UnitPrice: 9900, Currency: "CNY",
		Title: "限量版跑鞋", PayWindow: 15 * time.Minute,
		Grants: []Grant{{No: ids.NewFor(7), User: 7, Quantity: 1, Seq: 1}},
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Batch){
		"no id":                   func(b *Batch) { b.ID = ids.ID{} },
		"no item":                 func(b *Batch) { b.ItemID = 0 },
		"negative shard":          func(b *Batch) { b.Shard = -1 },
		"negative price":          func(b *Batch) { b.UnitPrice = -1 },
		"huge price":              func(b *Batch) { b.UnitPrice = MaxUnitPrice + 1 },
		"negative window":         func(b *Batch) { b.PayWindow = -1 },
		"endless window":          func(b *Batch) { b.PayWindow = MaxPayWindow + 1 },
		"no currency":             func(b *Batch) { b.Currency = "" },
		"odd currency":            func(b *Batch) { b.Currency = "cny" },
		"NUL in title":            func(b *Batch) { b.Title = "a\x00b" },
		"broken UTF-8":            func(b *Batch) { b.Title = "a\xffb" },
		"long title":              func(b *Batch) { b.Title = string(make([]byte, MaxTitleBytes+1)) },
		"many grants":             func(b *Batch) { b.Grants = make([]Grant, MaxGrants+1) },
		"grant's negative window": func(b *Batch) { b.Grants[0].PayWithin = -1 },
		"grant's endless window":  func(b *Batch) { b.Grants[0].PayWithin = int32(MaxPayWindow/time.Second) + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := valid()
			if err := new(Batch).Decode(b.Encode(nil)); err != nil {
				t.Fatalf("before it is corrupted: %v", err)
			}
			spoil(&b)
			if err := new(Batch).Decode(b.Encode(nil)); !errors.Is(err, ErrMalformed) {
				t.Fatalf("got %v", err)
			}
		})
	}
	for name, spoil := range map[string]func([]byte){
		"no version":       func(d []byte) { d[0] = '{' },
		"windows promised": func(d []byte) { d[0] = codecVersionWindows },
		"unknown flag":     func(d []byte) { d[1] |= 0x80 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := valid()
			data := b.Encode(nil)
			spoil(data)
			if err := new(Batch).Decode(data); !errors.Is(err, ErrMalformed) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestDecodeTellsANewerVersionFromCorruption(t *testing.T) {
	t.Parallel()
	b := valid()
	data := b.Encode(nil)
	data[0] = codecVersionWindows + 1
	if err := new(Batch).Decode(data); !errors.Is(err, ErrNewer) || errors.Is(err, ErrMalformed) {
		t.Fatalf("got %v", err)
	}
}

// goldenV1 is the format of the first release: messages outlive the binary that
// wrote them, and a grant with the batch's payment window is still written this
// way.
const goldenV1 = "010001991b2c3d4e708192a3b4c5d6e70123020406000898b20280a0f1c2b134" + "03434e590573686f6573" +
	"0101991b2c3d4e708192a3b4c5d6e701240e0202"

func TestBatchGolden(t *testing.T) {
	t.Parallel()
	no := ids.ID{0x01, 0x99, 0x1b, 0x2c, 0x3d, 0x4e, 0x70, 0x81, 0x92, 0xa3, 0xb4, 0xc5, 0xd6, 0xe7, 0x01, 0x23}
	b := Batch{
		ID: no, ItemID: 1, ActivityID: 2, SessionID: 3, Epoch: 4, UnitPrice: 19596, Currency: "CNY", Title: "shoes", PayWindow: 15 * time.Minute,
	}
	no[15]++
	b.Grants = []Grant{{No: no, User: 7, Quantity: 1, Seq: 1}}
	plain := b.Encode(nil)
	if got := hex.EncodeToString(plain); got != goldenV1 {
		t.Errorf("version 1 changed: %v, want %v", got, goldenV1)
	}
	// A different payment window makes it version 2, with three more bytes at
	// the end.
	b.Grants[0].PayWithin = 30
	plain[0] = codecVersionWindows
	if diff := cmp.Diff(append(plain, 1, 1, 30), b.Encode(nil)); diff != "" {
		t.Error(diff)
	}
}

func TestEncodeAllocatesOnce(t *testing.T) {
	b := valid()
	for i := range int64(511) {
		b.Grants = append(b.Grants, Grant{No: ids.NewFor(i), User: i, Quantity: 1, Seq: i + 2})
	}
	if n := testing.AllocsPerRun(100, func() { b.Encode(nil) }); n > 1 {
		t.Errorf("Encode allocates %.0f times", n)
	}
	buf := b.Encode(nil)
	if n := testing.AllocsPerRun(100, func() { buf = b.Encode(buf[:0]) }); n > 0 {
		t.Errorf("Encode into a buffer with room allocates %.0f times", n)
	}
	if per := len(buf) / len(b.Grants); per > 32 {
		t.Errorf("a grant takes %d bytes", per)
	}
}

func FuzzDecode(f *testing.F) {
	b := valid()
	f.Add(b.Encode(nil))
	b.Grants[0].PayWithin = 30
	f.Add(b.Encode(nil))
	b.Grants, b.PerActivity = nil, true
	f.Add(b.Encode(nil))
	f.Add([]byte{codecVersion})
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, again Batch
		if err := got.Decode(data); err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrNewer) {
				t.Fatalf("an unnamed error: %v", err)
			}
			return
		}
		// Accepted data means the same after another round. The bytes may
		// differ: varints have longer forms than the one that Encode picks.
		if err := again.Decode(got.Encode(nil)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatal(diff)
		}
	})
}
