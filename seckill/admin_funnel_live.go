package seckill

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/edge/httpx"
)

const (
	// liveEvery is how often a followed funnel is sent: instances store their counts as
	// often.
	liveEvery = time.Second
	// liveFor ends a stream, so that a token that was revoked meanwhile does not follow a
	// sale for days; browsers connect again on their own.
	liveFor = 10 * time.Minute
)

// liveRoute registers the funnel as server-sent events.
func (s *Service) liveRoute(api httpx.API) {
	const path = adminBase + "/items/{id}/funnel/live"
	op := readOp(path, "follow-funnel", "An item's funnel every second, as server-sent events", readProblems)
	op.Class = httpx.Held
	op.Description = "Events without a name or an id, one at once and then one every second: the `data` of each is the JSON document that GET /api/v1/admin/items/{id}/funnel answers, in one line. " +
		"It is the whole state, so that a client that missed some needs no others. The stream ends after ten minutes or when the server stops; connect again."
	httpx.Register(api, op, func(ctx context.Context, in *ByID) (*huma.StreamResponse, error) {
		id, err := httpx.ParseID(in.ID)
		if err != nil {
			return nil, err
		}
		first, _, err := s.funnel(ctx, id)
		if err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(out huma.Context) { s.follow(out, id, first) }}, nil //nolint:contextcheck // huma.Context carries the request's context
	})
	funnel := api.Huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[itemFunnelView](), true, "")
	api.Huma.OpenAPI().Paths[path].Get.Responses["200"].Content = map[string]*huma.MediaType{"text/event-stream": {
		Schema:  &huma.Schema{Type: huma.TypeString, Description: "Each event is `data: ` and the document " + funnel.Ref[strings.LastIndexByte(funnel.Ref, '/')+1:] + ", ended by an empty line"},
		Example: "data: {\"item_id\":\"7\",\"attempts\":1200,\"answers\":{\"queued\":100,\"all-held\":1100},…}\n\n",
	}}
}

// follow writes the funnel until the client leaves, the server stops or the time is
// over. A funnel that cannot be read is left out; the next one follows.
func (s *Service) follow(out huma.Context, id int64, v itemFunnelView) {
	ctx, cancel := context.WithTimeout(out.Context(), liveFor)
	defer cancel()
	out.SetHeader("Content-Type", "text/event-stream")
	out.SetHeader("Cache-Control", httpx.NoStore)
	w := out.BodyWriter()
	flusher, _ := w.(http.Flusher)
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for {
		raw, err := json.Marshal(v)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", raw); err != nil {
			return
		}
		if flusher != nil {
			flusher.Flush()
		}
		select {
		case <-ctx.Done():
			return
		case <-s.stopping:
			return
		case <-tick.C:
		}
		if next, _, err := s.funnel(ctx, id); err == nil {
			v = next
		}
	}
}
