package httpx_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/httpx"
)

type draft struct {
	Limit int    `query:"limit" minimum:"1" maximum:"100"`
	Since string `query:"since" format:"date-time"`
	Body  struct {
		Title    string    `json:"title" minLength:"1" maxLength:"5"`
		Currency string    `json:"currency,omitempty" pattern:"^[A-Z]{3}$"`
		Kind     string    `json:"kind,omitempty" enum:"slide,pow"`
		Status   string    `json:"status,omitempty" enum:"pending_payment,paid,completed,closed,refused,refunding,refunded,refund_failed"`
		Stock    int32     `json:"stock,omitempty" maximum:"10000000"`
		Total    int64     `json:"total,omitempty" minimum:"-5"`
		Share    float64   `json:"share,omitempty" exclusiveMinimum:"0"`
		Open     bool      `json:"open,omitempty"`
		EndsAt   time.Time `json:"ends_at,omitzero"`
		Image    string    `json:"image,omitempty" format:"uri"`
		Items    []struct {
			Price int64 `json:"price"`
		} `json:"items,omitempty" maxItems:"1"`
	}
}

// A flaw is a sentence with the field's name that says what to send instead.
func TestFlawsAreSentences(t *testing.T) {
	t.Parallel()
	rt, _ := newRouter(t)
	httpx.Register(rt.API, httpx.Op{Method: http.MethodPost, Path: "/drafts/{id}", ID: "draft", NoKey: "a test", Summary: "Draft"},
		func(context.Context, *draft) (*echoOutput, error) { return &echoOutput{}, nil })
	httpx.Register(rt.API, httpx.Op{Method: http.MethodGet, Path: "/bare", ID: "bare", Summary: "Bare"},
		func(context.Context, *struct{}) (*echoOutput, error) { return &echoOutput{}, nil })
	// What some flaws are in Chinese.
	chinese := map[string]string{
		"title is missing.":                                                            "必填。",
		"price is not a known field.":                                                  "不支持该字段。",
		"title must have at least 1 character.":                                        "至少 1 个字符。",
		"title must have at most 5 characters.":                                        "最多 5 个字符。",
		"stock must be at most 10000000.":                                              "不能大于 10000000。",
		"total must be at least -5.":                                                   "不能小于 -5。",
		"kind must be one of slide, pow.":                                              "须为以下之一：slide, pow。",
		"limit must be a whole number.":                                                "须为整数。",
		"q is not a known parameter; this route takes limit, since.":                   "不支持该参数，可用：limit, since。",
		"stock must be a whole number of at most 2147483647, written without a point.": "须为整数，不带小数点，不能大于 2147483647。",
	}
	for _, c := range []struct {
		query, body, contentType string
		status                   int
		detail                   string
		places                   string // locations of errors, with their values
	}{
		{"", `{}`, "", 422, "title is missing.", `body.title`},
		{"", `{"title":"a","price":1}`, "", 422, "price is not a known field.", `body.price`},
		{"", `{"title":""}`, "", 422, "title must have at least 1 character.", `body.title ""`},
		{"", `{"title":"abcdef"}`, "", 422, "title must have at most 5 characters.", `body.title "abcdef"`},
		{"", `{"title":7}`, "", 422, "title must be a text.", `body.title 7`},
		{"", `{"title":"a","stock":9223372036854775807}`, "", 422, "stock must be at most 10000000.", `body.stock 9223372036854775807`},
		{"", `{"title":"a","stock":1.5}`, "", 422, "stock must be a whole number.", `body.stock 1.5`},
		{"", `{"title":"a","stock":1.0}`, "", 422, "stock must be a whole number of at most 2147483647, written without a point.", `body.stock`},
		{"", `{"title":"a","total":9223372036854775808}`, "", 422, "total must be a whole number of at most 9223372036854775807, written without a point.", `body.total`},
		{"", `{"title":"a","total":-6}`, "", 422, "total must be at least -5.", `body.total -6`},
		{"", `{"title":"a","share":0}`, "", 422, "share must be more than 0.", `body.share 0`},
		{"", `{"title":"a","open":"yes"}`, "", 422, "open must be true or false.", `body.open "yes"`},
		{"", `{"title":"a","kind":"face"}`, "", 422, "kind must be one of slide, pow.", `body.kind "face"`},
		{"", `{"title":"a","status":"lost"}`, "", 422, "status must be one of pending_payment, paid, completed, closed, refused, refunding, refunded, refund_failed.", `body.status "lost"`},
		{"", `{"title":"a","currency":"yen"}`, "", 422, "currency must be of the form ^[A-Z]{3}$.", `body.currency "yen"`},
		{"", `{"title":"a","ends_at":"tomorrow"}`, "", 422, "ends_at must be a time with its zone, as in 2026-11-11T20:00:00+08:00.", `body.ends_at "tomorrow"`},
		{"", `{"title":"a","image":"%"}`, "", 422, "image must be a web address, as in https://shop.example/phone.png.", `body.image "%"`},
		{"", `{"title":"a","items":[{}]}`, "", 422, "items[0].price is missing.", `body.items[0].price`},
		{"", `{"title":"a","items":[{"price":1},{"price":2}]}`, "", 422, "items must have at most 1 entry.", `body.items`},
		{"", `{"title":7,"open":7}`, "", 422, "open must be true or false; errors lists this and 1 more.", `body.open 7, body.title 7`},
		{"", `[]`, "", 422, "The body must be an object.", `body`},
		{"", `{"title":"a"`, "", 400, "The body is not JSON: it ends too early.", `body`},
		{"", `{"title":secret}`, "", 400, "The body is not JSON: byte 10 does not belong there.", `body`},
		{"", `{"title":"a"} {}`, "", 400, "The body has extra data after its JSON, from byte 15 on.", `body`},
		{"", ``, "", 400, "This route requires a JSON body, and none was sent.", ``},
		{"", `title=a`, "application/x-www-form-urlencoded", 415, "The body's Content-Type is not application/json.", ``},
		{"", `{"title":"a` + strings.Repeat(" ", 70_000) + `"}`, "", 413, "The body must be smaller than 65536 bytes.", ``},
		{"?limit=abc", `{"title":"a"}`, "", 422, "limit must be a whole number.", `query.limit "abc"`},
		{"?limit=101", `{"title":"a"}`, "", 422, "limit must be at most 100.", `query.limit 101`},
		{"?q=First", `{"title":"a"}`, "", 422, "q is not a known parameter; this route takes limit, since.", `query.q ""`},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/drafts/1"+c.query, strings.NewReader(c.body))
		req.Header.Set("Content-Type", c.contentType)
		status, p := ask(t, rt, req)
		var places []string
		for _, e := range p.Errors {
			place := e.Location
			if e.Value != nil {
				place += " " + string(e.Value)
			}
			places = append(places, place)
		}
		if got := strings.Join(places, ", "); status != c.status || p.Detail != c.detail || got != c.places {
			t.Errorf("%s %.60s:\n%d %s %s, want\n%d %s %s", c.query, c.body, status, p.Detail, got, c.status, c.detail, c.places)
		}
		if c.status != http.StatusUnprocessableEntity {
			continue
		}
		req = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/drafts/1"+c.query, strings.NewReader(c.body))
		req.Header.Set("Accept-Language", "zh-CN")
		_, p = ask(t, rt, req)
		for _, e := range p.Errors {
			if want := chinese[c.detail]; !strings.HasSuffix(e.Message, "。") || want != "" && e.Message != want || !strings.HasSuffix(p.Detail, "。") || want != "" && !strings.HasSuffix(p.Detail, want) {
				t.Errorf("in Chinese the flaw %s is %q, with the detail %q", c.detail, e.Message, p.Detail)
			}
		}
	}
	if status, p := ask(t, rt, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/bare?a=1", nil)); status != 422 || p.Detail != "a is not a known parameter; this route takes no query parameters." {
		t.Errorf("%d %s", status, p.Detail)
	}
}

type problem struct {
	Detail string
	Errors []struct {
		Message, Location string
		Value             json.RawMessage
	}
}

func ask(t *testing.T, h http.Handler, req *http.Request) (int, problem) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	var p problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return w.Code, p
}

// Errors of a login do not repeat its secrets.
func TestRefusalsRepeatNoSecret(t *testing.T) {
	t.Parallel()
	rt, _ := newRouter(t)
	type login struct {
		Check string `header:"Human-Check" maxLength:"5"`
		Wait  int    `query:"wait"`
		Body  struct {
			Phone    string `json:"phone" maxLength:"11"`
			Password string `json:"password" minLength:"10" maxLength:"12"`
			Code     int32  `json:"code,omitempty"`
		}
	}
	for _, path := range []string{"/api/v1/auth/login", "/api/v1/me/password", "/api/v1/me", "/elsewhere"} {
		httpx.Register(rt.API, httpx.Op{Method: http.MethodPost, Path: path, ID: path, NoKey: "a test", Summary: "Log in"},
			func(context.Context, *login) (*echoOutput, error) { return &echoOutput{}, nil })
		for _, body := range []string{
			`{"phone":"13800138000","password":"s3cret"`, `{"phone":"13800138000","password":s3cret}`, `"s3cret"`, `s3cret`,
			`{"phone":"13800138000","password":"s3cret s3cret"}`, `{"phone":"13800138000","password":"s3cret"}`,
			`{"phone":"1","password":["s3cret"]}`, `{"password":"s3cret s3cret","code":"s3cret"}`, `{"phone":"1","password":"0123456789","code":3.0}x s3cret`,
		} {
			for _, contentType := range []string{"application/json", "text/plain", "text/s3cret", "s3cret;+"} {
				req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path+"?wait=s3cret", strings.NewReader(body))
				req.Header.Set("Content-Type", contentType)
				req.Header.Set("Human-Check", "s3cret s3cret")
				w := httptest.NewRecorder()
				rt.ServeHTTP(w, req)
				if path == "/elsewhere" { // only single values may be repeated there
					if strings.Contains(w.Body.String(), `"location":"body","value"`) || strings.Contains(w.Body.String(), `"location":"header.Human-Check","value"`) {
						t.Errorf("%s with %s: %s", body, contentType, w.Body)
					}
					continue
				}
				if w.Code < 400 || w.Code >= 500 || bytes.Contains(w.Body.Bytes(), []byte("s3cret")) {
					t.Errorf("%s %s with %s: %d %s", path, body, contentType, w.Code, w.Body)
				}
			}
		}
	}
}
