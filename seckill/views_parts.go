package seckill

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"stampede/seckill/internal/seckilldb"
)

// The parts that every view is made of. They know how they look in JSON and in
// the OpenAPI document; nothing else in the module thinks about either.

// rowID is a row's id. It travels as a decimal string, because a JSON number
// loses digits above 2⁵³ in a browser.
type rowID int64

func (id rowID) String() string { return strconv.FormatInt(int64(id), 10) }

// MarshalText writes decimal digits.
func (id rowID) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(id), 10), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *rowID) UnmarshalText(text []byte) error {
	v, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || v <= 0 {
		return fmt.Errorf("an id is a positive decimal number in quotes, got %q", text)
	}
	*id = rowID(v)
	return nil
}

// Schema tells OpenAPI that an id is a string of digits.
func (rowID) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: "^[1-9][0-9]{0,18}$", Examples: []any{"12"}}
}

// timestampLayout is RFC 3339 with exactly three digits of a second.
const timestampLayout = "2006-01-02T15:04:05.000Z07:00"

// timestamp is a moment as the API writes it: RFC 3339, milliseconds, UTC.
type timestamp time.Time

// MarshalJSON writes the one form.
func (t timestamp) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, len(timestampLayout)+2)
	b = append(b, '"')
	b = time.Time(t).UTC().AppendFormat(b, timestampLayout)
	return append(b, '"'), nil
}

// UnmarshalJSON reads any RFC 3339 moment.
func (t *timestamp) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, (*time.Time)(t)) }

// Schema tells OpenAPI that a moment is a date-time.
func (timestamp) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Examples: []any{"2026-11-11T12:00:00.000Z"}}
}

// money is an amount in minor units of its currency.
type money struct {
	Amount   int64  `json:"amount"`
	Currency string `json:"currency"`
}

// Schema writes the two fields in place, so that no other module's money can
// take the name in the document.
func (money) Schema(huma.Registry) *huma.Schema {
	least, most := 0.0, float64(maxPrice)
	return &huma.Schema{
		Type: huma.TypeObject, Required: []string{"amount", "currency"}, AdditionalProperties: false,
		Properties: map[string]*huma.Schema{
			"amount":   {Type: huma.TypeInteger, Format: "int64", Minimum: &least, Maximum: &most, Description: "Minor units: fen, cents", Examples: []any{9900}},
			"currency": {Type: huma.TypeString, Pattern: "^[A-Z]{3}$", Description: "ISO 4217", Examples: []any{"CNY"}},
		},
	}
}

// Goods are what an item is, whoever looks at it. They are exported because
// huma documents embedded fields of exported types only.
type Goods struct {
	SKU       string `json:"sku" doc:"The shop's own name for the goods"`
	Title     string `json:"title"`
	Spec      string `json:"spec" doc:"Which variant it is"`
	ImageURL  string `json:"image_url" doc:"Empty without a picture"`
	ListPrice money  `json:"list_price" doc:"What it costs outside the sale"`
	SalePrice money  `json:"sale_price" doc:"What it costs in the sale"`
}

func goodsOf(i *seckilldb.SeckillItem) Goods {
	return Goods{
		SKU: i.Sku, Title: i.Title, Spec: i.Spec, ImageURL: i.ImageUrl,
		ListPrice: money{i.ListPrice, i.Currency}, SalePrice: money{i.SalePrice, i.Currency},
	}
}

// page is one page of a list; T is a view.
type page[T any] struct {
	Data       []T    `json:"data" nullable:"false"`
	NextCursor string `json:"next_cursor" doc:"Ask for the next page with ?cursor=…; empty on the last page"`
}

// optional returns a pointer's target, or the fallback for nil: what a PATCH
// leaves as it is.
func optional[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}

// schemaOf is the schema of T under its own name.
func schemaOf[T any](r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, "")
}
