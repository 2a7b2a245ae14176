package desk

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order"
	"stampede/order/carrier"
	"stampede/order/internal/orderdb"
	"stampede/order/internal/table"
	"stampede/order/orderevent"
	"stampede/order/waybill"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/seckill/seckillevent"
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

// notShippedError is a result other than resultReady, as the error that undoes what was begun.
type notShippedError string

func (r notShippedError) Error() string { return "desk: not shipped: " + string(r) }

// mayShip fails with notShippedError unless an order may be noted as sent, of which before was noted,
// nil if nothing was.
func mayShip(sent Parcel, before *Parcel, refundOpen bool) error {
	switch {
	case before != nil && carrier.Same(before.Carrier, sent.Carrier) && before.TrackingNo == sent.TrackingNo:
		return notShippedError(resultAlready)
	case before != nil:
		return notShippedError(resultOtherwise)
	case refundOpen:
		return notShippedError(resultRefunded)
	default:
		return nil
	}
}

// resultOf is the result of an order whose shipping failed with err.
func resultOf(err error) string {
	if because, is := errors.AsType[notShippedError](err); is {
		return string(because)
	}
	switch refused, _ := errors.AsType[*fault.Error](err); {
	case err == nil:
		return resultReady
	case refused == nil:
		return resultFailed
	case refused.Is(errNotShippable):
		status, _ := refused.Fields["order_status"].(string)
		return unpaid(status)
	case refused.Is(order.ErrNoOrder):
		return resultNoOrder
	case refused.Is(errNoParcel):
		return resultPickup
	default:
		return resultFailed
	}
}

// one ships an order that was ready when it was looked at, unless it has changed since.
func (s shipper) one(ctx context.Context, one *ShipmentRow) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), shipTimeout)
	defer stop()
	_, err := s.ship(ctx, one.no, one.sent, func(tx pgx.Tx, before *Parcel) error {
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
