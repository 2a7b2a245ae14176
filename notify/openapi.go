package notify

import (
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"stampede/notify/webhook"
	"stampede/order/orderevent"
	"stampede/platform/edge/httpx"
)

// document describes the WebSocket in the OpenAPI document, which covers the
// handshake; the messages are in the description and, for generators, in
// x-messages.
func document(doc *huma.OpenAPI) {
	schemas := doc.Components.Schemas
	problem := schemas.Schema(reflect.TypeFor[httpx.Problem](), true, "Problem")
	order := schemas.Schema(reflect.TypeFor[orderevent.OrderView](), true, "Order")
	refusal := func(codes string) *huma.Response {
		return &huma.Response{Description: codes, Content: map[string]*huma.MediaType{httpx.ProblemContentType: {Schema: problem}}}
	}
	constant := func(s string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Enum: []any{s}} }
	doc.AddOperation(&huma.Operation{
		Method: http.MethodGet, Path: path, OperationID: "push", Tags: []string{"shopper"},
		Summary: "Follow every change of your orders (WebSocket)",
		Description: "Open it as a WebSocket. The access token comes in one of three ways: as a subprotocol, by offering `" + protocol + "` and `" +
			tokenPrefix + "<token>` (the server chooses `" + protocol + "`); in the first message, `{\"token\":\"<token>\"}`, within 5 s; " +
			"or in the Authorization header, which browsers cannot set. It is never in the query string.\n\n" +
			"The server sends JSON text messages: `{\"type\":\"hello\"}` once the token is accepted, then `{\"type\":\"order\",\"order\":{…}}` for each " +
			"change, where `order` is what GET /api/v1/orders/{no} answers. Take the one with the higher `version` and ignore types that you do not know. " +
			"`{\"type\":\"returned\",\"items\":[\"42\"]}` says, to every socket and at most every two seconds, which items have units again that others held. " +
			"`{\"type\":\"dispute\",\"dispute\":{…}}` says that one of your disputes has changed: ask for it. " +
			"`{\"type\":\"surplus\",\"order_no\":…,\"amount\":{…},\"reason\":\"late\"}` says that money arrived which pays no order, because that was closed (late) or paid (duplicate), " +
			"or another amount was charged (mismatch): it goes back. " +
			"A push is a hint: after connecting again, ask for the orders you follow.\n\n" +
			"Close codes: 1001, the server is restarting, connect again; 1008, the token is missing, late, not valid or has expired, its login was ended, or you have too " +
			"many connections, do not connect again with the same token; 1013, you read too slowly, pushes may be missing, or this server is full, ask for your orders and connect again.",
		Security: []map[string][]string{{}, {httpx.BearerScheme: {}}},
		Parameters: []*huma.Param{{
			Name: "Sec-WebSocket-Protocol", In: "header", Description: "Subprotocols that the client offers, comma-separated",
			Schema: &huma.Schema{Type: huma.TypeString}, Example: protocol + ", " + tokenPrefix + "<token>",
		}},
		Responses: map[string]*huma.Response{
			"101": {Description: "The connection is a WebSocket now"},
			"400": refusal("bad-request"), "403": refusal("forbidden"), "426": refusal("upgrade-required"), "503": refusal("unavailable"),
		},
		Extensions: map[string]any{"x-messages": map[string]any{
			"client": []*huma.Schema{object(map[string]*huma.Schema{"token": {Type: huma.TypeString}}, "token")},
			"server": []*huma.Schema{
				object(map[string]*huma.Schema{"type": constant("hello")}, "type"),
				object(map[string]*huma.Schema{"type": constant("order"), "order": order}, "type", "order"),
				object(map[string]*huma.Schema{"type": constant("dispute"), "dispute": schemas.Schema(reflect.TypeFor[webhook.DisputeData](), true, "DisputeData")}, "type", "dispute"),
				object(map[string]*huma.Schema{"type": constant("returned"), "items": {Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}}}, "type", "items"),
				object(map[string]*huma.Schema{
					"type": constant("surplus"), "order_no": {Type: huma.TypeString}, "amount": schemas.Schema(reflect.TypeFor[orderevent.Money](), true, "Money"),
					"reason": {Type: huma.TypeString, Enum: []any{"late", "duplicate", "mismatch"}},
				}, "type", "order_no", "amount", "reason"),
			},
		}},
	})
}

func object(properties map[string]*huma.Schema, required ...string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Properties: properties, Required: required}
}
