package webhook

import (
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"stampede/order/orderevent"
	"stampede/platform/edge/httpx"
)

// document describes the events in the OpenAPI document's webhooks.
func document(doc *huma.OpenAPI) {
	if doc.Webhooks == nil {
		doc.Webhooks = map[string]*huma.PathItem{}
	}
	schemas := doc.Components.Schemas
	for _, k := range kinds {
		data := schemas.Schema(reflect.TypeOf(k.example), true, reflect.TypeOf(k.example).Name())
		example := map[string]any{"id": exampleNo.String() + "-0", "type": k.name, "timestamp": orderevent.Time(exampleAt), "data": plain(k.example)}
		header := func(name, says string) *huma.Param {
			return &huma.Param{Name: name, In: "header", Required: true, Description: says, Schema: &huma.Schema{Type: huma.TypeString}}
		}
		doc.Webhooks[k.name] = &huma.PathItem{Post: &huma.Operation{
			OperationID: "on-" + k.name, Method: http.MethodPost, Tags: []string{"operator"}, Summary: k.says[httpx.English],
			Parameters: []*huma.Param{
				header("webhook-id", "The event's id, the same in every delivery"), header("webhook-timestamp", "When this delivery was signed, in seconds since 1970"),
				header("webhook-signature", "`v1,` and the HMAC-SHA256, in base64, of id, timestamp and body, joined by dots; several are separated by a space"),
			},
			RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {Example: example, Schema: &huma.Schema{
				Type: huma.TypeObject, Required: []string{"id", "type", "timestamp", "data"}, Properties: map[string]*huma.Schema{
					"id": {Type: huma.TypeString}, "type": {Type: huma.TypeString, Enum: []any{k.name}}, "timestamp": {Type: huma.TypeString, Format: "date-time"}, "data": data,
				},
			}}}},
			Responses: map[string]*huma.Response{"2XX": {Description: "Taken; anything else is tried again"}, "410": {Description: "The webhook is disabled"}},
		}}
	}
}

// plain is a value as JSON has it.
func plain(v any) (out any) {
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		panic(err) // of a constant
	}
	return out
}
