package httpx_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/require"
)

// strictInput has a member of each kind that a body can have.
type strictInput struct {
	Body strictBody
}

type strictBody struct {
	Kind  string            `json:"kind,omitempty" enum:"web,ios" maxLength:"8"`
	Rate  int               `json:"rate,omitempty" minimum:"0" maximum:"9"`
	Share float64           `json:"share,omitempty" minimum:"0"`
	Open  bool              `json:"open,omitempty"`
	Names []string          `json:"names,omitempty" maxItems:"3"`
	Tags  map[string]string `json:"tags,omitempty"`
	Inner *strictBody       `json:"inner,omitempty"`
}

// strictRouter has one route, which hands its body to got.
func strictRouter(t testing.TB, got func(strictBody)) *httpx.Router {
	t.Helper()
	rt := httpx.NewRouter(auth.NewTokens([]byte(strings.Repeat("k1", 16)), time.Now), slog.New(slog.DiscardHandler), "test", prometheus.NewRegistry())
	httpx.Register(rt.API, httpx.Op{Method: http.MethodPost, Path: "/strict", ID: "strict", NoKey: "a test", Summary: "Strict"},
		func(_ context.Context, in *strictInput) (*struct{}, error) {
			got(in.Body)
			return nil, nil
		})
	return rt
}

func post(t testing.TB, h http.Handler, body string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/strict", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// A member in another case, or given twice, used to pass the schema and then to set
// the field with a value that the schema had never seen.
func TestAttackMembersThatPassTheSchema(t *testing.T) {
	t.Parallel()
	rt := strictRouter(t, func(b strictBody) { t.Errorf("the handler ran with %+v", b) })
	for _, c := range []struct {
		body   string
		status int
		detail string
	}{
		{`{"RATE":-5}`, 422, "RATE is not a known field."},
		{`{"rate":1,"Rate":-5}`, 422, "Rate is not a known field."},
		{`{"Kind":"web"}`, 422, "Kind is not a known field."},
		{`{"\u212aind":"web"}`, 422, "\u212aind is not a known field."}, // the Kelvin sign folds to k
		{`{"inner":{"RATE":-5}}`, 422, "inner.RATE is not a known field."},
		{`{"rate":-5,"rate":1}`, 400, "rate is given twice."},
		{`{"rate":1,"r\u0061te":2}`, 400, "rate is given twice."},
		{`{"names":["a"],"inner":{"names":["a","b","c"],"names":["d"]}}`, 400, "inner.names is given twice."},
		{`{"tags":{"a":"1","b":"2","a":"3"}}`, 400, "tags.a is given twice."},
		{`{"tags":{"a b":"1","a b":"3"}}`, 400, "The body has a name twice in one object."},
		{`{"tags":{"":"1","":"3"}}`, 400, "The body has a name twice in one object."},
		{`{"names":[{},{"a":1,"a":2}]}`, 400, "names[1].a is given twice."},
	} {
		w := post(t, rt, c.body)
		var p problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatalf("%s: %v: %s", c.body, err, w.Body)
		}
		if w.Code != c.status || p.Detail != c.detail {
			t.Errorf("%s: %d %s, want %d %s", c.body, w.Code, p.Detail, c.status, c.detail)
		}
	}
}

type searchInput struct {
	Text string `query:"text"`
}

// TestAttackTextsThatCannotBeStored sends texts that Postgres refuses, which made
// routes that search or store them answer 500.
func TestAttackTextsThatCannotBeStored(t *testing.T) {
	t.Parallel()
	rt := strictRouter(t, func(b strictBody) { t.Errorf("the handler ran with %+v", b) })
	httpx.Register(rt.API, httpx.Op{Method: http.MethodGet, Path: "/strict", ID: "search", Summary: "Search"},
		func(_ context.Context, in *searchInput) (*struct{}, error) {
			if in.Text != "\u6d4b%" {
				t.Errorf("the handler ran with %q", in.Text)
			}
			return nil, nil
		})
	for body, want := range map[string]int{`{"names":["a\u0000b"]}`: 400, `{"tags":{"\u0000":"a"}}`: 400, `{"tags":{"a":"\u0000"}}`: 400} {
		require.Equal(t, body, post(t, rt, body).Code, want)
	}
	for query, want := range map[string]int{"text=%00": 422, "text=a%C0%80": 422, "text=%ED%A0%80": 422, "text=\xff": 422, "text=%E6%B5%8B%25": 204} {
		w := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/strict", nil)
		req.URL.RawQuery = query
		rt.ServeHTTP(w, req)
		require.Equal(t, query, w.Code, want)
	}
}

// FuzzBodyTreeAndStruct: the handler's input is the tree that the schema accepted.
func FuzzBodyTreeAndStruct(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"kind":"web","rate":9,"share":0.5,"open":true,"names":["a"],"tags":{"x":"y"},"inner":{"rate":1}}`,
		`{"RATE":-5}`, `{"rate":1,"Rate":-5}`, `{"rate":-5,"rate":1}`, `{"\u212aind":"web"}`, `{"inner":{"rate":1},"inner":{"kind":"ios"}}`,
		`{"rate":null}`, `{"names":null,"inner":null}`, `{"tags":{"A":"1","a":"2"}}`, `{"share":1e2}`, `{"kind":"w\ud800"}`, `[[[[`, `{"tags":{"\u0000":""}}`,
	} {
		f.Add(seed)
	}
	var got *strictBody
	rt := strictRouter(f, func(b strictBody) { got = &b })
	f.Fuzz(func(t *testing.T, body string) {
		got = nil
		w := post(t, rt, body)
		if w.Code >= http.StatusInternalServerError {
			t.Fatalf("%q: %d %s", body, w.Code, w.Body)
		}
		if got == nil {
			return
		}
		encoded, err := json.Marshal(got)
		require.NoError(t, err)
		if sent, kept := plain(t, []byte(body)), plain(t, encoded); !reflect.DeepEqual(sent, kept) {
			t.Fatalf("%q passed the schema and reached the handler as %s", body, encoded)
		}
	})
}

// plain returns a body without the members that equal a missing one, and with its
// numbers in one form.
func plain(t *testing.T, body []byte) any {
	t.Helper()
	var tree any
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	kept, _ := bare(tree, true)
	return kept
}

// bare returns v without empty members, and whether v itself is empty. The members
// of tags and the entries of lists count even if they are empty.
func bare(v any, dropEmpty bool) (kept any, empty bool) {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, member := range v {
			if name == "inner" && member != nil {
				out[name], _ = bare(member, true)
				continue
			}
			if b, none := bare(member, false); !none || !dropEmpty {
				out[name] = b
			}
		}
		return out, len(out) == 0
	case []any:
		return v, len(v) == 0
	case json.Number:
		n, ok := new(big.Float).SetString(v.String())
		if !ok {
			return v, false
		}
		f, _ := n.Float64() // what the struct keeps
		return f, f == 0
	case nil:
		return nil, true
	default:
		return v, reflect.ValueOf(v).IsZero()
	}
}
