// Package sandbox sends no SMS: it keeps the last messages in memory and shows them on a
// page, so that users can log in to a demo on one machine.
//
// Never serve it from a real shop: everyone can read the codes. It shows no
// message to a phone of staff, since a code is a login.
package sandbox

import (
	"context"
	_ "embed" // the page
	"encoding/json"
	"html/template"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"stampede/platform/edge/sms"
)

// Prefix is the path of the page.
const Prefix = "/sandbox/sms"

// kept is how many messages are kept: an afternoon of testing.
const kept = 100

// Got is a message as the page shows it.
type Got struct {
	sms.Message
	At time.Time `json:"at"`
}

// Gateway is the sandbox. Safe for concurrent use.
type Gateway struct {
	staff func(ctx context.Context) ([]string, error)
	now   func() time.Time

	mu   sync.Mutex
	msgs []Got // oldest first
}

// New returns an empty sandbox. staff returns the phones whose messages it does not show.
func New(now func() time.Time, staff func(ctx context.Context) ([]string, error)) *Gateway {
	return &Gateway{now: now, staff: staff}
}

// Routes mounts the page.
func (g *Gateway) Routes(mux chi.Router) { mux.Get(Prefix, g.show) }

// Messages returns the messages sent to a phone, newest first; "" returns all.
func (g *Gateway) Messages(phone string) []Got {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Got, 0, len(g.msgs))
	for _, m := range slices.Backward(g.msgs) {
		if phone == "" || m.Phone == phone {
			out = append(out, m)
		}
	}
	return out
}

// Send implements sms.Sender. It keeps a message once, however often it arrives.
func (g *Gateway) Send(_ context.Context, m sms.Message) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if slices.ContainsFunc(g.msgs, func(o Got) bool { return o.ID == m.ID }) {
		return nil
	}
	if len(g.msgs) == kept {
		g.msgs = slices.Delete(g.msgs, 0, 1)
	}
	g.msgs = append(g.msgs, Got{Message: m, At: g.now().UTC()})
	return nil
}

// notShown stands for a message to staff.
const notShown = "To staff: not shown here. Log in with the password, or use a token of `stampede token`. 员工短信不在此显示。"

//go:embed page.html
var pageSource string

var page = template.Must(template.New("sms").Parse(pageSource))

// show is GET Prefix[?phone=…&format=json]: a page for people, JSON for programs.
func (g *Gateway) show(w http.ResponseWriter, r *http.Request) {
	msgs := g.Messages(r.URL.Query().Get("phone"))
	staff, err := g.staff(r.Context())
	if err != nil {
		http.Error(w, "the phones of staff cannot be read now", http.StatusServiceUnavailable)
		return
	}
	for i := range msgs {
		if slices.Contains(staff, msgs[i].Phone) {
			msgs[i].Text, msgs[i].Params = notShown, nil // both have the code
		}
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.URL.Query().Get("format") == "json" {
		h.Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"data": msgs}) // the client may be gone
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'")
	_ = page.Execute(w, msgs) // the client may be gone
}
