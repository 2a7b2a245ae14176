package search

import (
	"context"
	"fmt"
	"slices"

	"stampede/order/carrier"
	"stampede/order/details"
	"stampede/order/internal/orderdb"
	"stampede/order/orderevent"
	"stampede/order/search/internal/searchdb"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account"
	"stampede/platform/store/pg"
	"stampede/seckill/seckillevent"
)

// AdminOrder is an operator's view of an order: the shopper's document plus
// what only concerns the shop.
type AdminOrder struct {
	orderevent.OrderView
	// Reason is the stored reason; shoppers see a reduced one.
	Reason string `json:"reason,omitempty" doc:"Why it was refused or closed, or paid after that" enum:"duplicate,shortfall,interrupted,blocked,timeout,canceled,withdrawn,backup,taken-back"`
	UserID string `json:"user_id"`
	Epoch  int64  `json:"epoch" doc:"The Load of the item under which the unit was granted"`
	Shard  int16  `json:"shard" doc:"The part of the item's stock that the unit is from"`
}

// View renders an order for an operator.
func View(o orderevent.Order) AdminOrder {
	return AdminOrder{OrderView: orderevent.View(o), Reason: o.Reason, UserID: httpx.FormatID(o.UserID), Epoch: o.Epoch, Shard: o.Shard}
}

// AdminOrderRow is an order in the operators' list.
type AdminOrderRow struct {
	AdminOrder
	SKU   string             `json:"sku,omitempty" doc:"The shop's own name for the goods"`
	Spec  string             `json:"spec,omitempty" doc:"Which variant it is"`
	Phone string             `json:"phone,omitempty" doc:"The account's; viewers read it masked"`
	Paid  *orderevent.PaidBy `json:"paid_by,omitempty" doc:"The payment that paid it, given from then on"`

	ExternalID string `json:"external_id,omitempty" doc:"What the shop's own system calls the order" example:"SO-2026-11-0042"`

	Details  *details.Details  `json:"details,omitempty" doc:"Of parcels: what the shopper settled; viewers read it masked"`
	Shipment *carrier.Shipment `json:"shipment,omitempty" doc:"Of parcels"`
	Refunded *orderevent.Money `json:"refunded,omitempty" doc:"Of parcels: what went back, left out of nothing"`

	// next is the place behind the row.
	next string
}

// recipient is who gets the goods, as far as the row knows.
func (r *AdminOrderRow) recipient() details.Details {
	if r.Details == nil {
		return details.Details{}
	}
	return *r.Details
}

// sent is how the goods left the shop, as far as the row knows.
func (r *AdminOrderRow) sent() carrier.Shipment {
	if r.Shipment == nil {
		return carrier.Shipment{}
	}
	return *r.Shipment
}

// refunded is what went back of the order's money, as far as the row knows.
func (r *AdminOrderRow) refunded() orderevent.Money {
	if r.Refunded == nil {
		return orderevent.Money{Currency: r.Amount.Currency}
	}
	return *r.Refunded
}

// views renders rows, with phones as the caller in ctx may read them.
func (s *Service) views(ctx context.Context, db pg.DB, f *filter, rows []hit) ([]AdminOrderRow, error) {
	refunded, err := s.refunds(ctx, f, &rows)
	if err != nil {
		return nil, err
	}
	phones, err := s.phonesOf(ctx, rows)
	if err != nil {
		return nil, err
	}
	externalIDs, err := externalIDsOf(ctx, db, rows)
	if err != nil {
		return nil, err
	}
	views := make([]AdminOrderRow, len(rows)) // an empty list, not null
	for i := range rows {
		r := &rows[i]
		sale, err := s.deps.Plan.SaleOf(ctx, r.ItemID)
		if err != nil {
			return nil, err // it names the module and the operation
		}
		views[i] = AdminOrderRow{AdminOrder: View(orderdb.OrdersOrder(r.row).Order()), SKU: sale.SKU, Spec: sale.Spec, Phone: phones[r.UserID], ExternalID: externalIDs[r.OrderNo], next: r.next.String()}
		if r.PaymentNo.Valid {
			views[i].Paid = &orderevent.PaidBy{PaymentNo: r.PaymentNo.Bytes, Provider: *r.Provider, Method: *r.Method, ProviderTxn: *r.ProviderTxn}
		}
		if sum := refunded[r.OrderNo]; f.parcels && sum > 0 {
			views[i].Refunded = &orderevent.Money{Amount: sum, Currency: r.Currency}
		}
	}
	if f.parcels {
		err = addParcels(ctx, db, views)
	}
	return views, err
}

// refunds reads what went back of the rows' money, where that is asked for. Of what the shop has
// to send it leaves out the orders with an open refund.
func (s *Service) refunds(ctx context.Context, f *filter, rows *[]hit) (map[ids.ID]int64, error) {
	if len(*rows) == 0 || !f.toShip && !f.parcels {
		return nil, nil
	}
	nos := make([]ids.ID, len(*rows))
	for i := range *rows {
		nos[i] = (*rows)[i].OrderNo
	}
	refunded, open, err := s.deps.Payments.RefundsOf(ctx, nos)
	if f.toShip {
		*rows = slices.DeleteFunc(*rows, func(h hit) bool { return open[h.OrderNo] })
	}
	return refunded, err // it names the module and the operation
}

// addParcels adds to the views where their orders go, as the caller in ctx may read it, and how
// they were sent.
func addParcels(ctx context.Context, db pg.DB, views []AdminOrderRow) error {
	nos, at := make([]ids.ID, len(views)), make(map[ids.ID]*AdminOrderRow, len(views))
	for i := range views {
		nos[i], at[views[i].OrderNo] = views[i].OrderNo, &views[i]
	}
	parcels, err := orderdb.New(db).ParcelsOf(ctx, orderdb.ParcelsOfParams{OrderNos: nos, Buckets: ids.BucketsOf(nos)})
	if err != nil {
		return fmt.Errorf("order: read parcels: %w", err)
	}
	for _, r := range parcels {
		v, d := at[r.OrderNo], details.Details{Way: seckillevent.Way(r.Way), Name: r.Name, Phone: r.Phone, Address: r.Address, Note: r.Note}
		if !auth.From(ctx).Role.May(auth.Operator) {
			d = d.Masked()
		}
		if d != (details.Details{}) {
			v.Details = &d
		}
		if r.Carrier != "" {
			v.Shipment = carrier.ShipmentOf(r.Carrier, r.TrackingNo, r.At, int(httpx.LanguageFrom(ctx)))
		}
	}
	return nil
}

// externalIDsOf reads what the shop's own system calls the rows' orders.
func externalIDsOf(ctx context.Context, db pg.DB, rows []hit) (map[ids.ID]string, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	var p searchdb.ExternalIDsParams
	for i := range rows {
		p.OrderNos, p.Buckets = append(p.OrderNos, rows[i].OrderNo), append(p.Buckets, rows[i].Bucket)
	}
	found, err := searchdb.New(db).ExternalIDs(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("order: read external ids: %w", err)
	}
	of := make(map[ids.ID]string, len(found))
	for _, r := range found {
		of[r.OrderNo] = r.ExternalID
	}
	return of, nil
}

// phonesOf reads the phones of the rows' users.
func (s *Service) phonesOf(ctx context.Context, rows []hit) (map[int64]string, error) {
	if s.deps.Accounts == nil || len(rows) == 0 {
		return nil, nil
	}
	users := make([]int64, len(rows))
	for i := range rows {
		users[i] = rows[i].UserID
	}
	phones, err := s.deps.Accounts.PhonesOf(ctx, users)
	if err != nil {
		return nil, fmt.Errorf("order: read phones: %w", err)
	}
	if !auth.From(ctx).Role.May(auth.Operator) {
		for user, phone := range phones {
			phones[user] = account.Phone(phone).Masked()
		}
	}
	return phones, nil
}
