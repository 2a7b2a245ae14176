// Package wire has the types that seckill's answers are made of: ids, times, money
// and goods. They define their own JSON form and OpenAPI schema, so that no
// handler has to.
package wire

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// ID is a row's id. JSON carries it as a decimal string, because a JSON number
// loses digits above 2⁵³ in a browser.
type ID int64

func (id ID) String() string { return strconv.FormatInt(int64(id), 10) }

// MarshalText writes decimal digits.
func (id ID) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(id), 10), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *ID) UnmarshalText(text []byte) error {
	v, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || v <= 0 {
		return fmt.Errorf("an id is a positive decimal number in quotes, got %q", text)
	}
	*id = ID(v)
	return nil
}

// Schema declares an id as a string of digits.
func (ID) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: "^[1-9][0-9]{0,18}$", Examples: []any{"12"}}
}

// TimeLayout is RFC 3339 with exactly three digits of a second.
const TimeLayout = "2006-01-02T15:04:05.000Z07:00"

// Time is a moment as the API writes it: RFC 3339, milliseconds, UTC.
type Time time.Time

// MarshalJSON writes the form described at Time.
func (t Time) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, len(TimeLayout)+2)
	b = append(b, '"')
	b = time.Time(t).UTC().AppendFormat(b, TimeLayout)
	return append(b, '"'), nil
}

// UnmarshalJSON reads any RFC 3339 time.
func (t *Time) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, (*time.Time)(t)) }

// Schema declares a Time as a date-time.
func (Time) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Examples: []any{"2026-11-11T12:00:00.000Z"}}
}

// MaxPrice is the highest price, in minor units: ten billion yuan, far above any
// goods and low enough that a sum over a sale does not overflow.
const MaxPrice = 1_000_000_000_000

// Money is an amount in minor units of its currency.
type Money struct {
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
}

// Schema declares the two fields inline, so that no other module's money type
// can claim the name in the document.
func (Money) Schema(huma.Registry) *huma.Schema {
	least, most := 0.0, float64(MaxPrice)
	return &huma.Schema{
		Type: huma.TypeObject, Required: []string{"amount", "currency"}, AdditionalProperties: false,
		Properties: map[string]*huma.Schema{
			"amount":   {Type: huma.TypeInteger, Format: "int64", Minimum: &least, Maximum: &most, Description: "Minor units: fen, cents", Examples: []any{9900}},
			"currency": {Type: huma.TypeString, Pattern: "^[A-Z]{3}$", Description: "ISO 4217", Examples: []any{"CNY"}},
		},
	}
}

// Goods are the fields of an item that operators and shoppers both see. They
// are exported because huma documents embedded fields of exported types only.
type Goods struct {
	SKU       string `json:"sku" doc:"The shop's own name for the goods"`
	Title     string `json:"title"`
	Spec      string `json:"spec" doc:"Which variant it is"`
	ImageURL  string `json:"image_url" doc:"Empty without a picture"`
	ListPrice Money  `json:"list_price" doc:"What it costs outside the sale"`
	SalePrice Money  `json:"sale_price" doc:"What it costs in the sale"`
}
