package rush

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
)

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

// The route itself: roles, defaults and answers.
func TestIssueOverHTTP(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(5)
	i := y.instance([]*catalogue.Item{it})
	bearer, err := auth.NewTokens(seckilltest.Key, time.Now).Mint(auth.Principal{UserID: 7, Role: auth.Shopper}, time.Minute)
	require.NoError(t, err)
	post := func(body, token string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodPost, "/api/v1/items/1/rush-path", strings.NewReader(body))
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		rec := httptest.NewRecorder()
		i.rt.ServeHTTP(rec, req)
		return rec
	}
	for body, want := range map[string]int{
		"": 200, "{}": 200, `{"quantity":1}`: 200, `{"quantity":2}`: 422, `{"quantity":0}`: 422, `{"quantity":-1}`: 422, `{"quantity":"1"}`: 422, `{`: 400,
	} {
		if rec := post(body, bearer); rec.Code != want {
			t.Errorf("%q: %d %s, want %d", body, rec.Code, rec.Body, want)
		}
	}
	if rec := post("", ""); rec.Code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", rec.Code)
	}
	doc := i.rt.API.Huma.OpenAPI()
	if op := doc.Paths["/api/v1/rush/{path}"]; op == nil || op.Post.Responses["202"] == nil || !strings.Contains(op.Post.Responses["503"].Description, "unknown") {
		t.Error("the rush is not documented")
	}
}
