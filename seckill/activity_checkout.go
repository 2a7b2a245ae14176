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
	f.add(len(slices.Compact(ways)) == len(c.Ways), at+"ways", c.Ways, "A way is named once.")
	f.add(c.Freight >= 0 && c.Freight <= seckillevent.MaxFreight, at+"freight", c.Freight, "Freight is 0 to %d.", seckillevent.MaxFreight)
	delivers := c.Offers(seckillevent.Delivery)
	f.add(c.Freight == 0 || delivers, at+"freight", c.Freight, "Freight is charged for a delivery: name it in ways.")
	f.add(c.FreeFrom >= 0 && (c.FreeFrom == 0 || c.Freight > 0), at+"free_from", c.FreeFrom, "A delivery is free from an amount on only where freight is charged.")
	f.add(c.Address == "" || delivers, at+"address", c.Address, "An address is asked for a delivery: name it in ways.")
	f.add(c.Freight == 0 || c.Address == seckillevent.Required, at+"address", c.Address, "A delivery with freight needs an address: require it.")
}
