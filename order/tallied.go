package order

import "stampede/order/orderevent"

// Stages of an item's funnel that this module counts.
const (
	stageOrders  = "orders"  // written and changed, by tallyCode
	stageUnits   = "units"   // of those orders, by the same code
	stageVisible = "visible" // time from a grant's message until its order was readable, by tally.StepCode
)

// tallyCode names an order's last change: created, refused-duplicate, paid,
// retaken (paid late, with units of the backup), closed-timeout, refunded, …
func tallyCode(o *orderevent.Order) string {
	switch {
	case o.Status == orderevent.StatusPending:
		return "created"
	case o.Status == orderevent.StatusPaid && o.Reason == orderevent.ReasonBackup:
		return "retaken"
	case (o.Status == orderevent.StatusRefused || o.Status == orderevent.StatusClosed) && o.Reason != "":
		return o.Status + "-" + o.Reason
	default:
		return o.Status
	}
}

// tallied counts changed orders in their items' funnels. A batch is mostly of one
// item and one code, which is one count.
func (m *metrics) tallied(orders []orderevent.Order) {
	for i := 0; i < len(orders); {
		item, code := orders[i].ItemID, tallyCode(&orders[i])
		first, units := i, int64(0)
		for ; i < len(orders) && orders[i].ItemID == item && tallyCode(&orders[i]) == code; i++ {
			units += int64(orders[i].Quantity)
		}
		m.tally.Count(item, stageOrders, code, int64(i-first))
		m.tally.Count(item, stageUnits, code, units)
	}
}
