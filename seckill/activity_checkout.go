package seckill

import (
	"slices"

	"stampede/platform/base/fault"
	"stampede/seckill/seckillevent"
)

// checkout checks what an activity settles between an order and its payment.
func (f *flaws) checkout(c *seckillevent.Checkout) {
	const at = "body.checkout."
	ways := slices.Clone(c.Ways)
	slices.Sort(ways)
	f.add(len(slices.Compact(ways)) == len(c.Ways), at+"ways", c.Ways,
		fault.T("Each delivery method is listed once.", "配送方式重复。"))
	f.add(c.Freight >= 0 && c.Freight <= seckillevent.MaxFreight, at+"freight", c.Freight,
		fault.T("Freight is 0 to {most} minor units.", "运费以最小货币单位计，须在 0 至 {most} 之间。", "most", seckillevent.MaxFreight))
	delivers := c.Offers(seckillevent.Delivery)
	f.add(c.Freight == 0 || delivers, at+"freight", c.Freight,
		fault.T("Freight is charged for delivery only: add delivery to ways.", "收取运费时，请勾选快递配送。"))
	f.add(c.FreeFrom >= 0 && (c.FreeFrom == 0 || c.Freight > 0), at+"free_from", c.FreeFrom,
		fault.T("Free delivery from an amount needs freight to be charged.", "收取运费时才能设置满额包邮。"))
	f.add(c.Address == "" || delivers, at+"address", c.Address,
		fault.T("An address is asked for only with delivery: add delivery to ways.", "需要收货地址时，请勾选快递配送。"))
	f.add(c.Freight == 0 || c.Address == seckillevent.Required, at+"address", c.Address,
		fault.T("Delivery with freight needs an address: require it.", "收取运费需要收货地址，请将收货地址设为必填。"))
}
