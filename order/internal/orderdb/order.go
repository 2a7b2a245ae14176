// Package orderdb is the generated queries of the orders, and how a row becomes an order.
package orderdb

import "stampede/order/orderevent"

// Order converts a row to the form of the other modules and the cache. It leaves out
// ClosingUntil, because a claim is not a change of the order, and the payment, which
// only operators read.
func (r OrdersOrder) Order() orderevent.Order {
	o := orderevent.Order{
		No: r.OrderNo, UserID: r.UserID, ItemID: r.ItemID, ActivityID: r.ActivityID, SessionID: r.SessionID,
		Shard: r.Shard, PerActivity: r.OnePerActivity, Epoch: r.Epoch, Quantity: r.Quantity,
		UnitPrice: r.UnitPrice, Freight: r.Freight, Discount: r.Discount, Currency: r.Currency, Title: r.Title, Status: r.Status, Reason: r.Reason,
		Version: r.Version, PayDeadline: r.PayDeadline.UTC(), CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	if r.Handover != nil {
		o.Handover = *r.Handover
	}
	if r.PaidAt != nil {
		o.PaidAt = r.PaidAt.UTC()
	}
	return o
}
