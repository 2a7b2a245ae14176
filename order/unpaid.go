package order

import (
	"context"
	"fmt"
	"time"

	"stampede/order/carrier"
	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

// Unpaid returns up to most unpaid orders whose deadline is after a place, and at most until, in the order of the
// deadlines: for those who warn shoppers.
func (r Reader) Unpaid(ctx context.Context, after time.Time, afterNo ids.ID, until time.Time, most int) ([]orderevent.Order, error) {
	rows, err := orderdb.New(r.DB).UnpaidAfter(ctx, orderdb.UnpaidAfterParams{
		AfterDeadline: after, AfterNo: afterNo, Until: until, Most: int32(most), //nolint:gosec // a page
	})
	if err != nil {
		return nil, fmt.Errorf("order: read unpaid orders: %w", err)
	}
	orders := make([]orderevent.Order, len(rows))
	for i := range rows {
		orders[i] = rows[i].Order()
	}
	return orders, nil
}

// Parcels returns how those of the orders were sent that were.
func (r Reader) Parcels(ctx context.Context, nos []ids.ID) (map[ids.ID]orderevent.Parcel, error) {
	rows, err := orderdb.New(r.DB).ParcelsOf(ctx, orderdb.ParcelsOfParams{OrderNos: nos, Buckets: ids.BucketsOf(nos)})
	if err != nil {
		return nil, fmt.Errorf("order: read parcels: %w", err)
	}
	parcels := make(map[ids.ID]orderevent.Parcel, len(rows))
	for _, row := range rows {
		if row.Carrier == "" {
			continue
		}
		p := orderevent.Parcel{TrackingNo: row.TrackingNo, At: row.At}
		for lang := range p.Carrier {
			p.Carrier[lang] = carrier.NameOf(row.Carrier, lang)
		}
		if p.TrackingNo == carrier.NoNumber {
			p.TrackingNo = ""
		}
		parcels[row.OrderNo] = p
	}
	return parcels, nil
}
