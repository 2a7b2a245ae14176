package order

import (
	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/order/search"
	"stampede/platform/base/ids"
)

// PaidBy is the payment that pays an order.
type PaidBy = search.PaidBy

// fromRow converts a row to the form of the other modules and the cache.
func fromRow(r orderdb.OrdersOrder) orderevent.Order { return r.Order() }

// bucketsOf reads the bucket of each number: every statement filters by both,
// so that Postgres goes to one partition per number.
func bucketsOf(nos []ids.ID) []int16 {
	buckets := make([]int16, len(nos))
	for i, no := range nos {
		buckets[i] = no.Bucket()
	}
	return buckets
}
