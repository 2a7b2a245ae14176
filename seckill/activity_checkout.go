package seckill

import (
	"slices"

	"stampede/seckill/seckillevent"
)

// checkout checks what an activity settles between an order and its payment.
func (f *flaws) checkout(c *seckillevent.Checkout) {
	const at = "body.checkout."
	ways := slices.Clone(c.Ways)
	slices.Sort(ways)
	f.add(len(slices.Compact(ways)) == len(c.Ways), at+"ways", c.Ways, "Each delivery method is listed once.")
	f.add(c.Freight >= 0 && c.Freight <= seckillevent.MaxFreight, at+"freight", c.Freight, "Freight is 0 to %d.", seckillevent.MaxFreight)
	delivers := c.Offers(seckillevent.Delivery)
	f.add(c.Freight == 0 || delivers, at+"freight", c.Freight, "Freight is charged for delivery only: add delivery to ways.")
	f.add(c.FreeFrom >= 0 && (c.FreeFrom == 0 || c.Freight > 0), at+"free_from", c.FreeFrom, "Free delivery from an amount needs freight to be charged.")
	f.add(c.Address == "" || delivers, at+"address", c.Address, "An address is asked for only with delivery: add delivery to ways.")
	f.add(c.Freight == 0 || c.Address == seckillevent.Required, at+"address", c.Address, "Delivery with freight needs an address: require it.")
}
