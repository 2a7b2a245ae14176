package details

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/order/details/internal/detailsdb"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account"
	"stampede/seckill/seckillevent"
)

// Details are an order's details as its shopper and operators read them.
type Details struct {
	Way     seckillevent.Way `json:"way,omitempty" enum:"delivery,pickup" doc:"How the goods reach the shopper"`
	Store   *PickupStore     `json:"store,omitempty" doc:"Where they are picked up"`
	Name    string           `json:"name,omitempty" example:"王小明"`
	Phone   string           `json:"phone,omitempty" doc:"In E.164"`
	Address string           `json:"address,omitempty" example:"上海市黄浦区南京东路 1 号"`
	Note    string           `json:"note,omitempty" doc:"To the shop"`
	// Code picks the goods up once the order is paid.
	Code string `json:"-"`
}

// PickupStore is where an order is picked up.
type PickupStore struct {
	ID      string `json:"id"`
	Name    string `json:"name" example:"旗舰店"`
	Address string `json:"address" example:"上海市黄浦区南京东路 1 号"`
	Phone   string `json:"phone,omitempty"`
	Hours   string `json:"hours,omitempty"`
}

// Read returns an order's details; false if there are none.
func Read(ctx context.Context, db detailsdb.DBTX, no ids.ID) (d Details, ok bool, err error) {
	row, err := detailsdb.New(db).Read(ctx, detailsdb.ReadParams{OrderNo: no, Bucket: no.Bucket()})
	if errors.Is(err, pgx.ErrNoRows) {
		return d, false, nil
	}
	if err != nil {
		return d, false, fmt.Errorf("order: read details of %s: %w", no, err)
	}
	d = Details{
		Way: seckillevent.Way(row.Way), Name: row.Name, Phone: row.Phone, Address: row.Address, Note: row.Note, Code: row.PickupCode,
	}
	if row.StoreID != nil {
		d.Store = &PickupStore{ID: httpx.FormatID(*row.StoreID), Name: row.StoreName, Address: row.StoreAddress, Phone: row.StorePhone, Hours: row.StoreHours}
	}
	return d, true, nil
}

// Masked returns the details for readers who may see that there are some, but
// neither call nor visit the shopper.
func (d Details) Masked() Details {
	const hidden = "****"
	for _, text := range []*string{&d.Address, &d.Note} {
		if *text != "" {
			*text = hidden
		}
	}
	if d.Name != "" {
		d.Name = string([]rune(d.Name)[:1]) + hidden
	}
	d.Phone, d.Code = account.Phone(d.Phone).Masked(), ""
	return d
}
