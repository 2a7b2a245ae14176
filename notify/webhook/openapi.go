package webhook

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"stampede/order/orderevent"
	"stampede/platform/edge/httpx"
)

// document describes the events in the OpenAPI document's webhooks.
func document(doc *huma.OpenAPI) {
	if doc.Webhooks == nil {
		doc.Webhooks = map[string]*huma.PathItem{}
	}
	doc.Components.Schemas.Schema(reflect.TypeFor[Event](), true, "Event") // with those of its kinds
	for _, k := range kinds {
		header := func(name, says string) *huma.Param {
			return &huma.Param{Name: name, In: "header", Required: true, Description: says, Schema: &huma.Schema{Type: huma.TypeString}}
		}
		doc.Webhooks[k.name] = &huma.PathItem{Post: &huma.Operation{
			OperationID: "on-" + k.name, Method: http.MethodPost, Tags: []string{"operator"}, Summary: k.says[httpx.English],
			Parameters: []*huma.Param{
				header("webhook-id", "The event's id, the same in every delivery"), header("webhook-timestamp", "When this delivery was signed, in seconds since 1970"),
				header("webhook-signature", "`v1,` and the HMAC-SHA256, in base64, of id, timestamp and body, joined by dots; several are separated by a space"),
			},
			RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/json": {
				Schema:  &huma.Schema{Ref: schemaRef(k.name)},
				Example: map[string]any{"id": exampleNo.String() + "-0", "type": k.name, "timestamp": orderevent.Time(exampleAt), "data": plain(k.example)},
			}}},
			Responses: map[string]*huma.Response{"2XX": {Description: "Taken; anything else is tried again"}, "410": {Description: "The webhook is disabled"}},
		}}
	}
}

// TransformSchema makes an event one of its kinds, each with a name and its own data: a
// generated client decides by the type, and has the data's members. webhook.test has none.
func (Event) TransformSchema(r huma.Registry, event *huma.Schema) *huma.Schema {
	union := &huma.Schema{
		Description:   "One of the types of events. A later release may have more: ignore a type that you do not know",
		Discriminator: &huma.Discriminator{PropertyName: "type", Mapping: map[string]string{}},
	}
	add := func(name string, data *huma.Schema) {
		members := maps.Clone(event.Properties)
		members["type"], members["data"] = &huma.Schema{Type: huma.TypeString, Enum: []any{name}}, data
		r.Map()[schemaName(name)] = &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Required: event.Required, Properties: members}
		union.Discriminator.Mapping[name] = schemaRef(name)
	}
	for _, k := range kinds {
		add(k.name, r.Schema(reflect.TypeOf(k.example), true, reflect.TypeOf(k.example).Name()))
	}
	add(typeTest, &huma.Schema{Type: huma.TypeObject})
	for _, name := range slices.Sorted(maps.Keys(union.Discriminator.Mapping)) {
		union.OneOf = append(union.OneOf, &huma.Schema{Ref: schemaRef(name)})
	}
	return union
}

// schemaName names the schema of a type of events: OrderPaidEvent.
func schemaName(kind string) (name string) {
	for word := range strings.FieldsFuncSeq(kind, func(r rune) bool { return r == '.' || r == '_' }) {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return name + "Event"
}

func schemaRef(kind string) string { return "#/components/schemas/" + schemaName(kind) }

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
