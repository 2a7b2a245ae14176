package rush

import (
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
)

// Routes registers the routes of rushes. The rush itself runs outside all
// middleware and is documented manually.
func (r *Service) Routes(rt *httpx.Router) {
	rt.Direct(http.MethodPost, rushPrefix, r.ServeHTTP, r.cfg.rushLimit())
	rt.API.Member("order_no", huma.Schema{Type: huma.TypeString, Description: "The number that holds the units, in an already-bought problem", Examples: []any{"0199a1b2c3d47e8f90a1b2c3d4e5f607"}})
	r.registerIssue(rt.API)
	document(rt.API.Huma)
}

// document adds the plain handler to the OpenAPI document.
func document(api huma.API) {
	doc := api.OpenAPI()
	ticket := doc.Components.Schemas.Schema(reflect.TypeFor[Ticket](), true, "Ticket")
	var refused []*fault.Error
	for _, refusal := range refusals { // the table that answers, so that none can be missing here
		if refusal != nil {
			refused = append(refused, refusal)
		}
	}
	responses := httpx.Refusals(api, refused)
	responses["202"] = &huma.Response{
		Description: "In line under order_no, or the order's status if this path was sent before. Queued does not mean won: query the order.",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: ticket}},
	}
	doc.AddOperation(&huma.Operation{
		Method: http.MethodPost, Path: rushPrefix + "{path}", OperationID: "rush", Tags: []string{"shopper"},
		Summary: "Rush",
		Description: "One path is one attempt. Send it from usable_from on, without a body; it needs no token, the path is the credential. " +
			"Sending it again gives the same answer, even if the first answer was lost: a 202, or 409 already-bought with the number in order_no. " +
			"After 503 unknown query GET /api/v1/orders/{order_no}; after every other refusal with Retry-After the same path may be sent again.",
		Parameters: []*huma.Param{{
			Name: "path", In: "path", Required: true, Description: "path of POST /api/v1/items/{id}/rush-path",
			Schema: &huma.Schema{Type: huma.TypeString, MinLength: new(pathTextBytes), MaxLength: new(pathTextBytes)},
		}},
		Responses: responses,
	})
}
