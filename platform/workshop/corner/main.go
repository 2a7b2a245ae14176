// Corner is a shop with users, books and a page of its own that lets Stampede run its sale: the example for the
// handbook's page "Beside your shop" (platform/operating/beside.md). It needs an API key and a webhook to /events here:
//
//	go run ./platform/workshop/corner --key stpk_… --secret whsec_… --opens 2026-11-11T12:00:00Z
//
// It plans the sale, sells through <stampede-buy> to users whom Stampede has never seen (page.html), keeps its books by
// events that are posted to it or pulled (books.go), and ships and refunds.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

//go:embed page.html
var pageText string

// page is the shop's own, with the element. The element asks for a token when it needs one.
var page = template.Must(template.New("").Parse(pageText))

type corner struct {
	stampede, key string
	hooks         *standardwebhooks.Webhook
	books         *books
	item          string // Stampede's id of what is on sale
}

func main() {
	fmt.Fprintln(os.Stderr, run())
	os.Exit(1)
}

func run() (err error) {
	c := &corner{}
	flag.StringVar(&c.stampede, "stampede", "http://127.0.0.1:8080", "`URL` of Stampede")
	flag.StringVar(&c.key, "key", "", "API key with plan:write, orders:read, orders:write, events:read and users:exchange")
	secret := flag.String("secret", "", "secret of the webhook that posts to /events here")
	listen := flag.String("listen", "127.0.0.1:3000", "`address` of this shop, which Stampede has in --allowed-origins")
	journal := flag.String("journal", "corner.jsonl", "`file` in which the books are kept")
	var opens time.Time
	flag.TextVar(&opens, "opens", time.Now().Add(time.Minute).Truncate(time.Second), "`time` of the opening, the same at every start")
	flag.Parse()
	if c.hooks, err = standardwebhooks.NewWebhook(*secret); err != nil {
		return fmt.Errorf("--secret: %w", err)
	}
	if c.books, err = open(*journal); err == nil {
		err = c.plan(opens)
	}
	if err != nil {
		return err
	}
	go c.pull()
	return (&http.Server{Addr: *listen, Handler: c.routes(), ReadTimeout: 10 * time.Second}).ListenAndServe()
}

// plan puts the sale, as often as it likes: the same document changes nothing.
func (c *corner) plan(opens time.Time) error {
	type object map[string]any
	price := func(amount int) object { return object{"amount": amount, "currency": "CNY"} } // in fen
	document := object{"name": "Corner's sale", "starts_at": opens.Add(-time.Hour), "ends_at": opens.Add(time.Hour), "publish": true, "human_check": "pow", "sessions": []object{{
		"external_id": "corner-noon", "name": "Noon", "opens_at": opens, "closes_at": opens.Add(time.Hour), "items": []object{{
			"external_id": "phone", "sku": "phone", "title": "Phone", "list_price": price(9900), "sale_price": price(990), "stock": 10,
		}},
	}}}
	type items struct{ Items []struct{ ID string } }
	var got struct{ Activity struct{ Sessions []items } }
	err := c.call(context.Background(), http.MethodPut, "/api/v1/admin/activities/by-external-id/corner", "", document, &got)
	if err == nil {
		c.item = got.Activity.Sessions[0].Items[0].ID
	}
	return err
}

// call sends a request to Stampede with the API key. A repetition with the same text in once has no second effect.
func (c *corner) call(ctx context.Context, method, path, once string, body, answer any) error {
	sent, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.stampede+path, bytes.NewReader(sent)) //nolint:gosec // the flag
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Content-Type", "application/json")
	if once != "" {
		req.Header.Set("Idempotency-Key", once)
	}
	got, err := http.DefaultClient.Do(req) //nolint:gosec // the flag
	if err != nil {
		return err
	}
	defer func() { _ = got.Body.Close() }()
	raw, err := io.ReadAll(got.Body)
	if err == nil && got.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %d %s", method, path, got.StatusCode, raw)
	}
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(raw, answer)
}

// userOf is the shop's user, whom a cookie names. A real shop signs it.
func userOf(r *http.Request) (user string) {
	if cookie, err := r.Cookie("user"); err == nil {
		user, _ = url.QueryUnescape(cookie.Value)
	}
	return user
}

func (c *corner) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		_ = page.Execute(w, map[string]string{"Stampede": c.stampede, "Item": c.item, "User": userOf(r)})
	})
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "user", Value: url.QueryEscape(r.FormValue("user")), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}) //nolint:gosec // without TLS, on this machine
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	mux.HandleFunc("POST /token", c.token)
	mux.HandleFunc("POST /events", c.posted)
	mux.HandleFunc("GET /books", func(w http.ResponseWriter, _ *http.Request) {
		c.books.mu.Lock()
		defer c.books.mu.Unlock()
		_ = json.NewEncoder(w).Encode(c.books)
	})
	mux.HandleFunc("POST /ship/{no}", c.clerk(http.MethodPut, "/shipment", `{"carrier":"Corner Express","tracking_no":"C-1"}`))
	mux.HandleFunc("POST /refund/{no}", c.clerk(http.MethodPost, "/refunds", `{"reason":"the parcel is lost"}`))
	return mux
}

// token gives the page's user an access token of Stampede's.
func (c *corner) token(w http.ResponseWriter, r *http.Request) {
	user := userOf(r)
	var got map[string]any
	if user == "" {
		http.Error(w, "log in first", http.StatusUnauthorized)
	} else if err := c.call(r.Context(), http.MethodPost, "/api/v1/auth/exchange-user", "", map[string]string{"subject": user, "nickname": user}, &got); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
	} else {
		_, _ = fmt.Fprint(w, got["access_token"])
	}
}

// clerk is what the shop's own staff does to an order.
func (c *corner) clerk(method, does, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		no := r.PathValue("no")
		if err := c.call(r.Context(), method, "/api/v1/admin/orders/"+url.PathEscape(no)+does, "corner-"+no+does, json.RawMessage(body), nil); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	}
}
