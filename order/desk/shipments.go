package desk

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"stampede/order"
	"stampede/order/carrier"
	"stampede/order/waybill"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/base/spreadsheet"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

const (
	// shipmentsBatch is how many orders are looked at by one query.
	shipmentsBatch = 200
	// maxSheetBytes is what an upload of the back office may have: a sheet of waybill.MaxRows
	// with the addresses that a carrier's client writes beside each is some 500 KiB.
	maxSheetBytes = 4 << 20
	// maxShipmentsBytes is 500 rows with every member at its longest.
	maxShipmentsBytes = 256 << 10
)

// Shipments is what became of a list of orders to ship.
type Shipments struct {
	Data    []ShipmentRow `json:"data" nullable:"false" doc:"In the order of the list"`
	Shipped int           `json:"shipped" doc:"Orders that were shipped now; of a dry run those that can be"`
	Already int           `json:"already_shipped"`
	Refused int           `json:"refused" doc:"All others"`
}

// ShipmentRow is what became of one row.
type ShipmentRow struct {
	Line       int    `json:"line" doc:"In the sheet or the list, from 1"`
	OrderNo    string `json:"order_no"`
	Carrier    string `json:"carrier" doc:"In the reader's language, if it is known, else as it was typed" example:"SF Express"`
	TrackingNo string `json:"tracking_no"`
	Result     string `json:"result" enum:"shipped,ready,already_shipped,shipped_otherwise,no_such_order,not_paid,refunded,to_be_picked_up,unknown_carrier,bad_number,duplicate,failed"`
	Says       string `json:"says" doc:"The result in the reader's language, and what to do" example:"Shipped."`

	no   ids.ID
	sent Parcel
}

// shipper ships lists of orders.
type shipper struct{ *Service }

func (s shipper) routes(rt *httpx.Router) {
	op := func(path, id string, most int64, summary, description string) httpx.Op {
		return httpx.Op{
			Method: http.MethodPost, Path: "/api/v1/admin/shipments" + path, ID: id, Tag: "operator", Role: auth.Operator, Scope: auth.OrdersWrite, Load: httpx.Costly,
			Summary: summary, Description: description, Audit: "order.ship", NoKey: httpx.SetsState, MaxBodyBytes: most,
		}
	}
	httpx.Register(rt.API, op("", "ship-orders", maxShipmentsBytes, "Ship up to 500 orders, each with its carrier and tracking number",
		"Each order has a result of its own, and one that fails keeps no other from being shipped. Sent again, the list ships what was not shipped. "+
			"Unlike the route of a single order it never changes a number that was noted before, "+
			"ships nothing with an open refund, and takes no number that the carrier's do not look like."), s.listed)
	httpx.Register(rt.API, op("/import", "import-shipments", maxSheetBytes, "Ship the orders of a sheet: CSV in UTF-8 or GB18030, or XLSX",
		"The body is the file, as a carrier's client or an export wrote it: a row of headings with the order number (order_no, 订单号), "+
			"the tracking number (tracking_no, 运单号, 快递单号) and, if it says, the carrier (carrier, 快递公司), "+
			"and up to 2,000 orders below. The results are those of `POST /api/v1/admin/shipments`; `dry_run` only says what they would be."), s.sheet)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/carriers", ID: "list-carriers", Tag: "operator", Role: auth.Viewer, Scope: auth.OrdersRead,
		Summary: "The carriers whose parcels have a tracking page",
	}, func(ctx context.Context, _ *struct{}) (*httpx.Output[httpx.Page[carrierView]], error) {
		page := httpx.Page[carrierView]{Data: []carrierView{}}
		for _, c := range carrier.All() {
			page.Data = append(page.Data, carrierView{c.Code, c.Name[httpx.LanguageFrom(ctx)]})
		}
		return httpx.Answer(page), nil
	})
}

// carrierView is a known carrier.
type carrierView struct {
	Code string `json:"code" example:"SF"`
	Name string `json:"name" doc:"In the reader's language" example:"SF Express"`
}

type shipListInput struct {
	Body struct {
		DryRun bool      `json:"dry_run,omitempty" doc:"Ship nothing"`
		Orders []sentRow `json:"orders" minItems:"1" maxItems:"500" nullable:"false"`
	} `nameHint:"ShipmentList"`
}

// sentRow is an order and how it was sent.
type sentRow struct {
	OrderNo    string `json:"order_no" maxLength:"64" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	Carrier    string `json:"carrier,omitempty" maxLength:"60" doc:"A code or a name of GET /api/v1/admin/carriers, or other: and a name; left out where the number tells it" example:"SF"`
	TrackingNo string `json:"tracking_no,omitempty" maxLength:"64" doc:"Left out of the shop's own delivery" example:"SF1234567890"`
}

func (s shipper) listed(ctx context.Context, in *shipListInput) (*httpx.Output[Shipments], error) {
	rows := make([]waybill.Row, len(in.Body.Orders))
	for i, r := range in.Body.Orders {
		rows[i] = waybill.RowOf(i+1, r.OrderNo, r.Carrier, r.TrackingNo)
	}
	return s.all(ctx, rows, in.Body.DryRun)
}

type shipSheetInput struct {
	DryRun  bool   `query:"dry_run" doc:"Ship nothing"`
	Carrier string `query:"carrier" maxLength:"60" doc:"Of rows that name none"`
	RawBody []byte `contentType:"application/octet-stream"`
}

func (s shipper) sheet(ctx context.Context, in *shipSheetInput) (*httpx.Output[Shipments], error) {
	cells, err := spreadsheet.Read(string(in.RawBody))
	if err != nil {
		return nil, fault.Plain(fault.Invalid, spreadsheet.Says(err)).Because(err)
	}
	rows, err := waybill.Rows(cells)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		rows[i].Carrier = cmp.Or(rows[i].Carrier, in.Carrier)
	}
	return s.all(ctx, rows, in.DryRun)
}

// all ships what can be of a list. What was begun ends although the client has left, and
// no further batch is begun then.
func (s shipper) all(ctx context.Context, rows []waybill.Row, dry bool) (*httpx.Output[Shipments], error) {
	made := Shipments{Data: checkAll(rows)}
	var todo []*ShipmentRow
	for i := range made.Data {
		if made.Data[i].Result == "" {
			todo = append(todo, &made.Data[i])
		}
	}
	for batch := range slices.Chunk(todo, shipmentsBatch) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := s.lookAt(ctx, batch); err != nil {
			return nil, order.ErrReading.Because(err)
		}
		if dry {
			continue
		}
		var g errgroup.Group
		g.SetLimit(parallel)
		for _, one := range batch {
			if one.Result == resultReady {
				g.Go(func() error {
					s.one(ctx, one)
					return nil
				})
			}
		}
		_ = g.Wait() // each order's error is in its result
	}
	lang := httpx.LanguageFrom(ctx)
	for i := range made.Data {
		r := &made.Data[i]
		if by := carrier.Find(r.sent.Carrier); by != nil {
			r.Carrier = by.Name[lang]
		}
		switch r.Result {
		case resultShipped, resultReady:
			made.Shipped++
		case resultAlready:
			made.Already++
		default:
			made.Refused++
		}
		if r.Says = sayings[r.Result][lang]; rows[i].Spoiled && r.Result == resultNumber {
			r.Says = spoiled[lang]
		}
	}
	return httpx.Answer(made), nil
}
