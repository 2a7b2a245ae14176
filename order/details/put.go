package details

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"stampede/order/details/internal/detailsdb"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/base/plaintext"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account"
	"stampede/seckill/seckillevent"
)

// Choices is what a shopper settles. It replaces what was settled before.
type Choices struct {
	Way     seckillevent.Way `json:"way,omitempty" enum:"delivery,pickup" doc:"One of checkout.ways; may be left out where there is one"`
	StoreID string           `json:"store_id,omitempty" pattern:"^[1-9][0-9]{0,18}$" doc:"Of GET /api/v1/stores, for a pickup"`
	Name    string           `json:"name,omitempty" maxLength:"60" doc:"1 to 60 characters" example:"王小明"`
	Phone   string           `json:"phone,omitempty" maxLength:"32" doc:"A mobile number" example:"13800138000"`
	Address string           `json:"address,omitempty" maxLength:"300" doc:"1 to 300 characters, for a delivery" example:"上海市黄浦区南京东路 1 号"`
	Note    string           `json:"note,omitempty" maxLength:"300" doc:"1 to 300 characters, to the shop"`
}

// Missing names the members of Choices without which an order of such an activity
// cannot be paid.
func Missing(c *seckillevent.Checkout) []string {
	var names []string
	if len(c.Ways) > 1 {
		names = append(names, "way")
	}
	for _, f := range []struct {
		name string
		ask  seckillevent.Ask
	}{{"name", c.Name}, {"phone", c.Phone}, {"address", c.Address}, {"note", c.Note}} {
		if f.ask == seckillevent.Required {
			names = append(names, f.name)
		}
	}
	if len(c.Ways) == 1 && c.Offers(seckillevent.Pickup) {
		names = append(names, "store_id")
	}
	return names
}

// Check cleans an input and compares it with what the activity asks for. Its error is
// a fault that lists every flaw.
func (in *Choices) Check(c *seckillevent.Checkout) error {
	found := errDetails
	flaw := func(field, english, chinese string) {
		found = found.At("body."+field, fault.T(english, chinese))
	}
	if in.Way == "" && len(c.Ways) == 1 {
		in.Way = c.Ways[0]
	}
	if in.Way == "" && len(c.Ways) > 0 || in.Way != "" && !c.Offers(in.Way) {
		flaw("way", "Choose how to receive your order.", "请选择配送方式。")
	}
	if (in.StoreID != "") != (in.Way == seckillevent.Pickup) {
		flaw("store_id", "Choose the store where you pick the order up; a delivery has none.", "到店自提请选择门店，快递无需选择。")
	}
	address := c.Address
	if in.Way != seckillevent.Delivery {
		address = ""
	}
	for _, f := range []struct {
		name string
		text *string
		ask  seckillevent.Ask
	}{{"name", &in.Name, c.Name}, {"phone", &in.Phone, c.Phone}, {"address", &in.Address, address}, {"note", &in.Note, c.Note}} {
		*f.text = plaintext.Clean(*f.text)
		switch {
		case *f.text == "" && f.ask == seckillevent.Required:
			flaw(f.name, "This is required.", "必填。")
		case *f.text != "" && f.ask == "":
			flaw(f.name, "This is not asked for; leave it out.", "此项无需填写，请留空。")
		case *f.text != "" && !plaintext.Legible(*f.text, false):
			flaw(f.name, "This contains a line break or a character that cannot be shown; remove it.", "含有换行或无法显示的字符，请删除。")
		}
	}
	if in.Phone != "" {
		phone, err := account.TypedPhone(in.Phone)
		if err != nil {
			for _, f := range fault.From(err).Flaws {
				found = found.At(f.Location, f.Says)
			}
		}
		in.Phone = string(phone)
	}
	if len(found.Flaws) == 0 {
		return nil
	}
	return found
}

var errDetails = fault.Plain(fault.Invalid,
	fault.T("These details do not fit what the activity asks for; errors lists each field.",
		"填写的信息不符合活动要求，各项见 errors。"))

var errNoStore = fault.Plain(fault.Invalid,
	fault.T("There is no open store with this store_id; see GET /api/v1/stores.", "没有该编号的营业门店，列表见 GET /api/v1/stores。")).
	At("body.store_id", fault.Text{"This store is closed; choose another one.", "该门店已停止营业，请选择其他门店。"})

// Put writes checked details of a user's order, whose row tx has locked.
func Put(ctx context.Context, tx pgx.Tx, no ids.ID, user int64, in *Choices) error {
	q := detailsdb.New(tx)
	row := detailsdb.PutParams{
		Bucket: no.Bucket(), OrderNo: no, UserID: user, Way: string(in.Way), Name: in.Name, Phone: in.Phone, Address: in.Address, Note: in.Note,
	}
	if in.Way == seckillevent.Pickup {
		store, err := strconv.ParseInt(in.StoreID, 10, 64)
		if err != nil {
			return errNoStore
		}
		open, err := q.StoreIsOpen(ctx, store)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && !open {
			return errNoStore
		}
		if err != nil {
			return fmt.Errorf("order: read store %s: %w", httpx.FormatID(store), err)
		}
		row.StoreID = &store
		row.PickupCode = newCode()
		row.PickupDigest = digest(row.PickupCode)
	}
	if err := q.Put(ctx, row); err != nil {
		return fmt.Errorf("order: put details of %s: %w", no, err)
	}
	return nil
}
