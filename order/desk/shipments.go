package desk

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"stampede/order"
	"stampede/order/carrier"
	"stampede/order/internal/orderdb"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/order/waybill"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/base/spreadsheet"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/seckill/seckillevent"
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

// What became of a row of shipments.
const (
	resultShipped   = "shipped"
	resultReady     = "ready"
	resultAlready   = "already_shipped"
	resultOtherwise = "shipped_otherwise"
	resultNoOrder   = "no_such_order"
	resultNotPaid   = "not_paid"
	resultRefunded  = "refunded"
	resultPickup    = "to_be_picked_up"
	resultCarrier   = "unknown_carrier"
	resultNumber    = "bad_number"
	resultDuplicate = "duplicate"
	resultFailed    = "failed"
)

// sayings are the results for people.
var sayings = map[string]fault.Text{
	resultShipped:   fault.T("Shipped.", "已发货。"),
	resultReady:     fault.T("Can be shipped.", "可发货。"),
	resultAlready:   fault.T("Was shipped with this number before.", "此前已用该运单号发货。"),
	resultOtherwise: fault.T("Was shipped with another number. Correct it on the order's page if this one is right.", "此前已用其他运单号发货；如需更正，请在订单详情中修改。"),
	resultNoOrder:   fault.T("There is no order with this number. Copy all of its 32 characters.", "没有该订单号，请复制完整的 32 位订单号。"),
	resultNotPaid:   fault.T("The order is not paid. Do not send it.", "订单未付款，请勿发货。"),
	resultRefunded:  fault.T("The order is refunded, or a refund of it is open. Do not send it.", "订单已退款或有未完成的退款，请勿发货。"),
	resultPickup:    fault.T("The shopper picks this order up at a store.", "该订单为到店自提，无需发货。"),
	resultCarrier:   fault.T("The carrier is not known. Use a name of the list, or write other: and its name.", "无法识别快递公司，请使用列表中的名称，或填写“其他：公司名称”。"),
	resultNumber:    fault.T("The number is not one of this carrier. Check it, and the carrier.", "运单号与快递公司不符，请核对。"),
	resultDuplicate: fault.T("The order is in the list more than once. Keep one row of it.", "该订单在表格中重复，请只保留一行。"),
	resultFailed:    fault.T("The order could not be shipped right now. Send the list again; what was done is not done twice.", "暂时无法处理，请重新提交，已发货的不会重复处理。"),
}

// spoiled is why a number is bad that a spreadsheet has rounded.
var spoiled = fault.T("The spreadsheet has rounded the number. Format the column as text, paste the numbers again and upload the sheet.", "运单号已被表格软件四舍五入。请将该列设为“文本”格式后重新粘贴，再上传。")

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
	Carrier    string `json:"carrier"`
	TrackingNo string `json:"tracking_no"`
	Result     string `json:"result" enum:"shipped,ready,already_shipped,shipped_otherwise,no_such_order,not_paid,refunded,to_be_picked_up,unknown_carrier,bad_number,duplicate,failed"`
	Says       string `json:"says" doc:"The result in the reader's language, and what to do" example:"Shipped."`

	no   ids.ID
	sent Parcel
}

// shipper ships lists of orders.
type shipper struct{ *Service }

func (s shipper) routes(rt *httpx.Router) {
	op := httpx.Op{
		Method: http.MethodPost, Tag: "operator", Role: auth.Operator, Scope: auth.OrdersWrite, Load: httpx.Costly, Audit: "order.ship", NoKey: httpx.SetsState,
	}
	list := op
	list.Path, list.ID, list.MaxBodyBytes = "/api/v1/admin/shipments", "ship-orders", maxShipmentsBytes
	list.Summary = "Ship up to 500 orders, each with its carrier and tracking number"
	list.Description = "Each order has a result of its own, and one that fails keeps no other from being shipped. Sent again, the list ships what was not shipped. Unlike the route of a single order it never changes a number that was noted before, " +
		"ships nothing with an open refund, and takes no number that the carrier's do not look like."
	httpx.Register(rt.API, list, s.listed)
	sheet := op
	sheet.Path, sheet.ID, sheet.MaxBodyBytes = "/api/v1/admin/shipments/import", "import-shipments", maxSheetBytes
	sheet.Summary = "Ship the orders of a sheet: CSV in UTF-8 or GB18030, or XLSX"
	sheet.Description = "The body is the file, as a carrier's client or an export wrote it: a row of headings with the order number (order_no, 订单号), the tracking number (tracking_no, 运单号, 快递单号) and, if it says, the carrier (carrier, 快递公司), " +
		"and up to 2,000 orders below. The results are those of `POST /api/v1/admin/shipments`; `dry_run` only says what they would be."
	httpx.Register(rt.API, sheet, s.sheet)
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
		rows[i] = waybill.Row{Line: i + 1, OrderNo: r.OrderNo, Carrier: r.Carrier}
		rows[i].TrackingNo, rows[i].Spoiled = waybill.Number(r.TrackingNo)
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
		switch r.Result {
		case resultShipped, resultReady:
			made.Shipped++
		case resultAlready:
			made.Already++
		default:
			made.Refused++
		}
		r.Says = cmp.Or(r.Says, sayings[r.Result][lang])
		if rows[i].Spoiled {
			r.Says = spoiled[lang]
		}
	}
	return httpx.Answer(made), nil
}

// checkAll gives the rows their results that no order needs to be read for.
func checkAll(rows []waybill.Row) []ShipmentRow {
	made, seen := make([]ShipmentRow, len(rows)), map[ids.ID]*ShipmentRow{}
	for i, r := range rows {
		one := &made[i]
		*one = ShipmentRow{Line: r.Line, OrderNo: r.OrderNo, Carrier: r.Carrier, TrackingNo: r.TrackingNo}
		no, err := ids.Parse(r.OrderNo)
		if err != nil {
			one.Result = resultNoOrder
			continue
		}
		one.no = no
		name, by, known := carrier.Named(r.Carrier, r.TrackingNo)
		number := r.TrackingNo
		if number == "" && by != nil && by.Code == carrier.Own {
			number = carrier.NoNumber
		}
		one.sent = Parcel{Carrier: name, TrackingNo: number}
		switch first := seen[no]; {
		case first != nil:
			one.Result = resultDuplicate
			if first.sent != one.sent { // which of the two is meant?
				first.Result = resultDuplicate
			}
		case !known:
			one.Result = resultCarrier
		case r.Spoiled || !by.Fits(number) || one.sent.check() != nil:
			one.Result = resultNumber
		}
		if seen[no] == nil {
			seen[no] = one
		}
	}
	return made
}

// lookAt gives a batch its results by how the orders are now: ready is what may be shipped.
func (s shipper) lookAt(ctx context.Context, batch []*ShipmentRow) error {
	nos := make([]ids.ID, len(batch))
	for i, one := range batch {
		nos[i] = one.no
	}
	orders, err := table.Many(ctx, s.deps.DB, nos)
	if err != nil {
		return err
	}
	_, open, err := s.deps.Payments.RefundsOf(ctx, nos)
	if err != nil {
		return err
	}
	parcels, err := orderdb.New(s.deps.DB).ParcelsOf(ctx, orderdb.ParcelsOfParams{OrderNos: nos, Buckets: ids.BucketsOf(nos)})
	if err != nil {
		return err
	}
	of := make(map[ids.ID]orderdb.ParcelsOfRow, len(parcels))
	for _, p := range parcels {
		of[p.OrderNo] = p
	}
	for _, one := range batch {
		o, exists := orders[one.no]
		p := of[one.no]
		before := &Parcel{p.Carrier, p.TrackingNo}
		if p.Carrier == "" {
			before = nil
		}
		switch {
		case !exists:
			one.Result = resultNoOrder
		case o.Status == orderevent.StatusPaid || o.Status == orderevent.StatusCompleted:
			one.Result = resultOf(mayShip(one.sent, before, open[one.no]))
			if p.Way == string(seckillevent.Pickup) {
				one.Result = resultPickup
			}
		default:
			one.Result = unpaid(o.Status)
		}
	}
	return nil
}

// unpaid is the result of an order that is neither paid nor completed.
func unpaid(status string) string {
	switch status {
	case orderevent.StatusRefunding, orderevent.StatusRefunded, orderevent.StatusRefundFailed:
		return resultRefunded
	default:
		return resultNotPaid
	}
}

// Why an order of a list is not shipped.
var (
	errAlready    = errors.New("desk: shipped with this number before")
	errOtherwise  = errors.New("desk: shipped with another number")
	errRefundOpen = errors.New("desk: a refund is open")
)

// mayShip reports whether an order that a shipment was noted of before, nil if none was, may be
// noted as sent.
func mayShip(sent Parcel, before *Parcel, refundOpen bool) error {
	switch {
	case before != nil && carrier.Same(before.Carrier, sent.Carrier) && before.TrackingNo == sent.TrackingNo:
		return errAlready
	case before != nil:
		return errOtherwise
	case refundOpen:
		return errRefundOpen
	default:
		return nil
	}
}

func resultOf(err error) string {
	refused, _ := errors.AsType[*fault.Error](err)
	switch {
	case err == nil:
		return resultReady
	case errors.Is(err, errAlready):
		return resultAlready
	case errors.Is(err, errOtherwise):
		return resultOtherwise
	case errors.Is(err, errRefundOpen):
		return resultRefunded
	case refused != nil && refused.Is(errNotShippable):
		status, _ := refused.Fields["order_status"].(string)
		return unpaid(status)
	case refused != nil && refused.Is(errNoParcel):
		return resultPickup
	default:
		return resultFailed
	}
}

// one ships an order that was ready when it was looked at, unless it has changed since.
func (s shipper) one(ctx context.Context, one *ShipmentRow) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), shipTimeout)
	defer stop()
	_, err := s.shipIf(ctx, one.no, one.sent, func(tx pgx.Tx, before *Parcel) error {
		open, err := s.deps.Payments.RefundOpen(ctx, tx, one.no)
		if err != nil {
			return err
		}
		return mayShip(one.sent, before, open)
	})
	if one.Result = resultOf(err); one.Result == resultReady {
		one.Result = resultShipped
	}
	if one.Result == resultFailed {
		s.deps.Log.WarnContext(ctx, "order of a list not shipped", "order_no", one.no, "error", err)
	}
}

// shipTimeout bounds the noting of one shipment, a transaction of some statements.
const shipTimeout = 20 * time.Second
