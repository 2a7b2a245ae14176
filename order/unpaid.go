package order

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/carrier"
	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
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

// Parcel returns how an order was sent, its carrier in each language; at is zero if it was not.
func (r Reader) Parcel(ctx context.Context, no ids.ID) (by fault.Text, tracking string, at time.Time, err error) {
	row, err := orderdb.New(r.DB).ShipmentOf(ctx, orderdb.ShipmentOfParams{OrderNo: no, Bucket: no.Bucket()})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return by, "", at, fmt.Errorf("order: read the parcel of %s: %w", no, err)
	}
	for lang := range by {
		by[lang] = carrier.NameOf(row.Carrier, lang)
	}
	if row.TrackingNo == carrier.NoNumber {
		row.TrackingNo = ""
	}
	return by, row.TrackingNo, row.At, nil
}
