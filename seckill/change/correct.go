package change

import (
	"cmp"
	"context"
	"fmt"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/plan"
)

// What can still be corrected from 60 s before the first opening until the end. The
// rest stays as shoppers saw it when they decided to come.
var (
	activityCorrections = fault.T("From 60 s before the opening its name, external_id and metadata can be corrected and ends_at moved later; its other fields stay.",
		"开抢前 60 秒起，只能更正名称、external_id 和 metadata，推迟 ends_at。")
	sessionCorrections = fault.T("From 60 s before the opening its name, external_id and metadata can be corrected and closes_at moved later while it is open; its other fields stay.",
		"开抢前 60 秒起，只能更正名称、external_id 和 metadata；场次进行中可推迟 closes_at。")
	itemCorrections = fault.T("From 60 s before the opening its title, spec, image_url, external_id and metadata can be corrected; its other fields stay.",
		"开抢前 60 秒起，只能更正标题、规格、image_url、external_id 和 metadata。")
	staysAsItIs = fault.T("This can no longer be changed; leave it as GET has it.", "已不能修改，请保持 GET 返回的值。")
)

// onlyCorrections reports that it is too late for any edit but a correction.
func (c *change) onlyCorrections() bool {
	return plan.Permit(c.phase, c.activity.Paused, plan.ActEdit) != nil
}

// tooLate refuses an edit of fields beyond a correction at their places, and says what a
// correction is, and of some fields what does the same instead. Without fields it is nil.
func (c *change) tooLate(corrections fault.Text, location string, fields []string, instead map[string]fault.Text) error {
	if len(fields) == 0 {
		return nil
	}
	refusal := plan.ErrNotEditable
	if c.phase == plan.PhaseFrozen {
		refusal = plan.ErrFrozen
	}
	says := fault.T("{possible} {corrections}", "{possible}{corrections}", "possible", plan.PossibleSentence(c.phase, c.activity.Paused), "corrections", corrections)
	refusal = refusal.Saying(says).With("possible", plan.Possible(c.phase, c.activity.Paused))
	for _, field := range fields {
		refusal = refusal.At(location+"."+field, cmp.Or(instead[field], staysAsItIs))
	}
	return refusal
}

// correctActivity checks that an edit of a running activity is a correction.
func (c *change) correctActivity(f *plan.Flaws, before, row seckilldb.SeckillActivity) error {
	f.Add(!row.EndsAt.Before(before.EndsAt), "body.ends_at", row.EndsAt,
		fault.T("The end can only move later now; to stop the sale, pause or terminate it.", "结束时间只能推迟；如需停售，请暂停或终止。"))
	// Shoppers of an exclusive activity are bound to it until the end that it had when they came.
	f.Add(!row.Exclusive || row.EndsAt.Equal(before.EndsAt), "body.ends_at", row.EndsAt,
		fault.T("An exclusive activity keeps its end, because its shoppers can take part in another one from then "+
			"on; extend its sessions up to ends_at.",
			"独占活动不能更改结束时间；场次可延长至活动结束。"))
	row.Name, row.EndsAt, row.ExternalID, row.Metadata = before.Name, before.EndsAt, before.ExternalID, before.Metadata
	return c.tooLate(activityCorrections, "body", fieldsOf(plan.ViewActivity(&before), plan.ViewActivity(&row)), nil)
}

// correctSession does the same for a session, whose stock rows follow its end.
func (c *change) correctSession(f *plan.Flaws, location string, before, row seckilldb.SeckillSession) error {
	f.Add(!row.ClosesAt.Before(before.ClosesAt), location+".closes_at", row.ClosesAt,
		fault.T("The end can only move later now; to stop the sale, pause or terminate it.", "结束时间只能推迟；如需停售，请暂停或终止。"))
	f.Add(row.ClosesAt.Equal(before.ClosesAt) || before.ClosesAt.After(c.at), location+".closes_at", row.ClosesAt,
		fault.T("The session is over, and its items may be settled; clone the activity to sell on.",
			"场次已结束，如需继续销售请复制活动。"))
	row.Name, row.ClosesAt, row.ExternalID, row.Metadata = before.Name, before.ClosesAt, before.ExternalID, before.Metadata
	return c.tooLate(sessionCorrections, location, fieldsOf(plan.ViewSession(&before), plan.ViewSession(&row)), nil)
}

// extendStock moves the end of a session's items, in Postgres and after the commit
// in Redis. The items are few, and their order is that of their ids.
func (c *change) extendStock(ctx context.Context, t *plan.Session, row *seckilldb.SeckillSession) error {
	if row.ClosesAt.Equal(t.ClosesAt) {
		return nil
	}
	for i := range t.Items {
		id := t.Items[i].ID
		if err := c.s.deps.Stock.Change(ctx, c.tx, id, inventory.Change{ClosesAt: &row.ClosesAt}); err != nil {
			return fmt.Errorf("change: extend the sale of item %d: %w", id, err)
		}
		c.apply = append(c.apply, id)
	}
	return nil
}

// correctItem does the same for an item. Its units have a route of their own, which the
// refusal names with the body that does what was asked.
func (c *change) correctItem(location string, before, row seckilldb.SeckillItem) error {
	row.Title, row.Spec, row.ImageUrl, row.ExternalID, row.Metadata = before.Title, before.Spec, before.ImageUrl, before.ExternalID, before.Metadata
	instead := map[string]fault.Text{}
	if plan.Permit(c.phase, c.activity.Paused, plan.ActAddStock) == nil {
		instead["stock"] = fault.T("Units are added by POST {path} {body}; then leave stock as GET has it.", "库存请用 POST {path} {body} 增减，再保持 GET 返回的值。",
			"path", fmt.Sprintf("/api/v1/admin/items/%d/stock", before.ID), "body", fmt.Sprintf(`{"add":%d}`, row.Stock-before.Stock))
	}
	return c.tooLate(itemCorrections, location, fieldsOf(plan.ViewItem(&before), plan.ViewItem(&row)), instead)
}
