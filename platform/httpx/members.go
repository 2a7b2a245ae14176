package httpx

import "github.com/danielgtaylor/huma/v2"

// members are the extension members that problems carry beside the standard ones,
// for the document: whatever a fault carries With a name is declared here, so that
// a strict client knows it, which a test sees to.
var members = map[string]*huma.Schema{
	"order_no":      member("The number that holds, of already-bought", "0199a1b2c3d47e8f90a1b2c3d4e5f607"),
	"order_status":  member("What the order is now, of order-not-payable and order-not-cancelable", "closed"),
	"version":       {Type: huma.TypeInteger, Description: "The present version, of stale-version", Examples: []any{3}},
	"possible":      {Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, Description: "What can be done in this state, of refused transitions", Examples: []any{[]string{"pause", "terminate"}}},
	"limit":         {Type: huma.TypeInteger, Description: "Units that one shopper may buy, of over-limit", Examples: []any{2}},
	"rule":          member("The limit that was reached, of rate-limited", "rush-path"),
	"activity":      member("The name of the activity that you take part in, of one-activity", "Singles' Day"),
	"activity_id":   member("The activity that you take part in, of one-activity", "12"),
	"challenge":     {Type: huma.TypeObject, AdditionalProperties: true, Description: "A check to pass at once, as GET challenge_url answers it, of human-check-required and human-check-failed"},
	"challenge_url": member("Where to get another check, of human-check-required and human-check-failed", "/api/v1/items/12/challenge"),
	"kind":          member("The kind of check, of human-check-required and human-check-failed", "slide"),
	"reason":        member("What was wrong with the answer, of human-check-failed; why the order was refused or closed, of order-not-payable and order-not-cancelable", "used"),
	"reservation_closes_at": {
		Type: huma.TypeString, Format: "date-time", Description: "Until when you can reserve, of no-reservation-held", Examples: []any{"2026-11-11T11:50:00.000Z"},
	},
}

func member(description, example string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Description: description, Examples: []any{example}}
}

// TransformSchema adds the members to the document's schema of a problem. None is
// required: which one comes depends on the code. Each document has its own copies:
// huma writes into the schemas that it is given.
func (*Problem) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	for name, member := range members {
		own := *member
		if own.Items != nil {
			items := *own.Items
			own.Items = &items
		}
		s.Properties[name] = &own
	}
	return s
}
