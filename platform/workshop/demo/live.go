package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"stampede/platform/edge/httpx"
	"stampede/platform/watch/proof"
)

// prove runs every check now, during the sale: the books agree at any moment.
func (s *Service) prove(w http.ResponseWriter, r *http.Request) {
	outcomes := s.deps.Prove(r.Context())
	answer(w, map[string]any{"ok": proof.AllOK(outcomes), "outcomes": outcomes})
}

// streamEvery is how often the page is updated: smooth for the eye, and cheap.
const streamEvery = 250 * time.Millisecond

// live streams the page's state as server-sent events.
func (s *Service) live(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	httpx.BeginEvents(w.Header().Set)
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	var sent seen
	for {
		raw, err := json.Marshal(s.state(r.Context(), &sent))
		if err != nil {
			s.deps.Log.ErrorContext(r.Context(), "encoding of live page state failed", "error", err)
			return
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", raw); err != nil || out.Flush() != nil {
			return // the page was closed
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// seen is what a page has of the chart: how many samples of which crowd.
type seen struct {
	crowd   *crowd
	samples int
}

// state is everything that the page shows; of the chart, what it has not seen. Values
// that cannot currently be read are omitted rather than shown as zero.
func (s *Service) state(ctx context.Context, sent *seen) map[string]any {
	now := time.Now()
	state := map[string]any{"server_time": now.UTC()}
	item := ""
	if x, ok := s.current(now); ok {
		state["sale"], item = x, x.ItemID
	}
	s.mu.Lock()
	if s.crowd != nil {
		if sent.crowd != s.crowd {
			*sent = seen{crowd: s.crowd}
		}
		state["crowd"], state["from"] = *s.crowd, sent.samples
		if news := s.crowd.samples[sent.samples:]; len(news) > 0 {
			state["samples"] = news
			sent.samples = len(s.crowd.samples)
		}
	}
	if s.outage != nil {
		o := *s.outage
		o.Seconds = time.Since(o.began).Seconds()
		state["outage"] = o
	}
	s.mu.Unlock()
	if id, err := strconv.ParseInt(item, 10, 64); err == nil {
		if b, err := s.deps.Books(ctx, id); err == nil {
			state["books"] = b
		}
	}
	return state
}

// answer writes a JSON document for the page.
func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}
