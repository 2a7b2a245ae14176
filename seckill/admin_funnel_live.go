package seckill

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/edge/httpx"
)

// liveRoute registers the funnel as server-sent events.
func (s *Service) liveRoute(api httpx.API) {
	const path = adminBase + "/items/{id}/funnel/live"
	op := readOp(path, "follow-funnel", "An item's funnel every second, as server-sent events", readProblems)
	op.Class = httpx.Events
	op.Description = "Events without a name or an id, one at once and then one every second: the `data` of each is the JSON document that GET /api/v1/admin/items/{id}/funnel answers, in one line. " +
		"It is the whole state, so that a client that missed some needs no others. The stream ends after ten minutes, with its token, or when the server stops; connect again."
	httpx.Register(api, op, func(ctx context.Context, in *ByID) (*huma.StreamResponse, error) {
		id, err := httpx.ParseID(in.ID)
		if err != nil {
			return nil, err
		}
		return s.funnels.stream(ctx, id, s.stopping, func() source[itemFunnelView] {
			return func(ctx context.Context) (reading[itemFunnelView], error) {
				v, _, err := s.funnel(ctx, id)
				if err != nil {
					return reading[itemFunnelView]{}, err
				}
				raw, err := json.Marshal(v)
				return reading[itemFunnelView]{v, raw}, err
			}
		})
	})
	describeEvents[itemFunnelView](api, path, "data: {\"item_id\":\"7\",\"attempts\":1200,\"answers\":{\"queued\":100,\"all-held\":1100},…}\n\n")
}

// describeEvents documents a route whose answer is events with documents of a type.
func describeEvents[D any](api httpx.API, path, example string) {
	document := api.Huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[D](), true, "")
	api.Huma.OpenAPI().Paths[path].Get.Responses["200"].Content = map[string]*huma.MediaType{"text/event-stream": {
		Schema: &huma.Schema{Type: huma.TypeString, Description: "Each event is `data: ` and the document " + document.Ref[strings.LastIndexByte(document.Ref, '/')+1:] + ", ended by an empty line. " +
			"An event named `displaced` is the last where the same user has opened too many newer streams: connect again only when a person asks for it"},
		Example: example,
	}}
}
