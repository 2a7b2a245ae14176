package order

import (
	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

// fromRow converts a row to the form of the other modules and the cache. It
// leaves out ClosingUntil: a claim is not a change of the order.
func fromRow(r orderdb.OrdersOrder) orderevent.Order {
	o := orderevent.Order{
		No: r.OrderNo, UserID: r.UserID, ItemID: r.ItemID, ActivityID: r.ActivityID, SessionID: r.SessionID,
		Shard: r.Shard, PerActivity: r.OnePerActivity, Epoch: r.Epoch, Quantity: r.Quantity,
		UnitPrice: r.UnitPrice, Freight: r.Freight, Discount: r.Discount, Currency: r.Currency, Title: r.Title, Status: r.Status, Reason: r.Reason,
		Version: r.Version, PayDeadline: r.PayDeadline.UTC(), CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	if r.PaidAt != nil {
		o.PaidAt = r.PaidAt.UTC()
	}
	return o
}

// bucketsOf reads the bucket of each number: every statement filters by both,
// so that Postgres goes to one partition per number.
func bucketsOf(nos []ids.ID) []int16 {
	buckets := make([]int16, len(nos))
	for i, no := range nos {
		buckets[i] = no.Bucket()
	}
	return buckets
}
