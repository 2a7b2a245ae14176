package external

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"stampede/platform/base/fault"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/require"
)

func TestValidID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]bool{
		"a": true, "!~": true, "erp/2026%11#?": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, "a b": false, "a\t": false, "\x7f": false, "é": false, "外": false, "a\x00": false,
	} {
		require.Equal(t, id, ValidID(id), want)
	}
}

func TestMetadataBounds(t *testing.T) {
	t.Parallel()
	many := Metadata{}
	for i := range 21 {
		many[strings.Repeat("k", i+1)] = ""
	}
	for _, c := range []struct {
		what  string
		m     Metadata
		flaws int
	}{
		{"nothing", nil, 0},
		{"the most", Metadata{strings.Repeat("键", 40): strings.Repeat("值", 500), "lines": "a\r\n\tb"}, 0},
		{"21 keys", many, 1},
		{"no key", Metadata{"": "x"}, 1},
		{"a long key", Metadata{strings.Repeat("k", 41): ""}, 1},
		{"a long value", Metadata{"k": strings.Repeat("v", 501)}, 1},
		{"a line break in a key", Metadata{"a\nb": ""}, 1},
		{"NUL, which Postgres cannot store", Metadata{"a": "\x00"}, 1},
		{"not UTF-8", Metadata{"a": "\xff", "b\xff": ""}, 2},
		{"backwards", Metadata{"a": "\u202e"}, 1},
	} {
		var f fault.Flaws
		Check(&f, "body", nil, c.m)
		require.Equal(t, c.what, len(f), c.flaws)
	}
	var f fault.Flaws
	Check(&f, "body", pg.Null(" "), Metadata{"b\n": "", "a\n": ""})
	var places []string
	for _, flaw := range f {
		places = append(places, flaw.Location)
	}
	require.Equal(t, "places", places, []string{"body.external_id", "body.metadata", "body.metadata"})
	require.Equal(t, "in the order of keys", f[1].Value, any("a\n"))
}

// FuzzMetadata: what Check accepts, JSON carries unchanged and Postgres's jsonb can store.
func FuzzMetadata(f *testing.F) {
	f.Add("erp-7", "clerk", "Li\nLei")
	f.Add("a\x00", "\u0000", "\xff\ufffd")
	f.Fuzz(func(t *testing.T, id, key, value string) {
		var flaws fault.Flaws
		if Check(&flaws, "body", &id, Metadata{key: value}); len(flaws) > 0 {
			return
		}
		raw, err := json.Marshal(Metadata{id: id, key: value})
		require.NoError(t, err)
		var back Metadata
		require.NoError(t, json.Unmarshal(raw, &back))
		if back[key] != value || strings.ContainsRune(id+key+value, 0) || !utf8.Valid(raw) || key != id && back[id] != id {
			t.Fatalf("%q became %q", value, raw)
		}
	})
}
