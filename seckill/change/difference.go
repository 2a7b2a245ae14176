package change

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/store/pg"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/plan"
)

// difference is what has to be done to make an activity what a document says.
type difference struct {
	c         *change
	doc       *plan.WholeActivity
	before    *plan.Activity // nil if there is none yet
	target    plan.Activity  // as the document has it; what is new has an id below 0
	changes   []planChange
	removals  []func(context.Context) error
	writes    []func(context.Context) error
	publishes bool

	places  map[string]string // where in the document a subject of the plan's checks is
	details map[int64]plan.WrittenDetail
	flaws   plan.Flaws
	refused *fault.Error // the first refusal of the single routes' state machine
	fresh   int64        // the last id below 0
}

// compare finds the activity of a document, and what of it differs. It fails with all
// that the single routes would refuse, and with the flaws that are known already.
func compare(ctx context.Context, c *change, doc *plan.WholeActivity, known plan.Flaws) (*difference, error) {
	before, err := findPlan(ctx, c, doc.ExternalID)
	if err != nil {
		return nil, err
	}
	d := &difference{c: c, doc: doc, before: before, changes: []planChange{}, places: map[string]string{}, flaws: slices.Clip(known)}
	was, rules := &plan.Activity{}, plan.ActivityRules{}
	if before != nil {
		was = before
		if d.details, err = plan.Details(ctx, c.q, before.ID); err != nil {
			return nil, err
		}
		if rules, err = plan.RulesOf(ctx, c.q, before.ID); err != nil {
			return nil, err
		}
	}
	d.activity(rules)
	d.sessions(was)
	d.target.Status = cmp.Or(d.target.Status, plan.StatusDraft)
	d.publishes = doc.Publish && c.phase == plan.PhaseDraft
	d.whole()
	switch {
	case d.refused != nil:
		all := *d.refused
		all.Flaws = append(slices.Clip(all.Flaws), d.flaws...)
		return nil, &all
	case len(d.flaws) > 0:
		return nil, d.flaws.Err()
	}
	if d.publishes {
		d.changes = append(d.changes, planChange{Action: string(plan.ActPublish)})
	}
	return d, nil
}

// refuse records that the state machine does not allow a change at a place, or at those that
// the refusal names.
func (d *difference) refuse(location string, err error) {
	said := *fault.From(err)
	flaws := said.Flaws
	if len(flaws) == 0 {
		flaws = fault.Flaws{{Location: location, Says: said.Detail}}
	}
	if said.Flaws = nil; d.refused == nil {
		d.refused = &said
	}
	for _, flaw := range flaws {
		d.refused = d.refused.At(flaw.Location, flaw.Says)
	}
}

// allow records a change of a row, and refuses it where the activity takes no edits, or only
// corrections and correct does not say that it is one.
func (d *difference) allow(location, path, action string, fields []string, correct func() error) {
	d.changes = append(d.changes, planChange{path, action, fields})
	c := d.c
	switch {
	case !c.onlyCorrections():
	case correct == nil || plan.Permit(c.phase, c.activity.Paused, plan.ActCorrect) != nil:
		d.refuse(location, plan.Permit(c.phase, c.activity.Paused, plan.ActEdit))
	default:
		if err := correct(); err != nil {
			d.refuse(location, err)
		}
	}
}

func right() error { return nil }

func (d *difference) activity(rules plan.ActivityRules) {
	c, doc, old := d.c, d.doc, d.c.activity
	row := doc.Row()
	if d.before != nil {
		row.ID, row.Status, row.Paused, row.Version, row.Revision = old.ID, old.Status, old.Paused, old.Version, old.Revision
		row.CreatedAt, row.UpdatedAt = old.CreatedAt, old.UpdatedAt
		if doc.PaymentWindowShare != nil && doc.PaymentWindowSeconds == nil {
			row.PaymentWindowSeconds = old.PaymentWindowSeconds // it does not apply, and GET leaves it out
		}
	}
	d.flaws.Activity(&row, doc.PaymentWindowSeconds != nil && doc.PaymentWindowShare != nil)
	d.flaws.Markdown("body.rules", doc.Rules)
	d.target.SeckillActivity = row
	if d.before == nil {
		d.changes = append(d.changes, planChange{Action: "create"})
		return
	}
	fields := fieldsOf(plan.ViewActivity(&old), plan.ViewActivity(&row))
	if len(fields) > 0 {
		d.allow("body", "", "change", fields, func() error { return c.correctActivity(&d.flaws, old, row) })
		d.writes = append(d.writes, func(ctx context.Context) error { return writeActivity(ctx, c, row) })
	}
	if rules.Rules != doc.Rules {
		d.allow("body.rules", "", "change", []string{"rules"}, right)
		d.writes = append(d.writes, func(ctx context.Context) error {
			for _, item := range d.before.Items() {
				c.details = append(c.details, item.ID)
			}
			return c.putRules(ctx, rules, plan.ActivityRules{Rules: doc.Rules, Version: rules.Version + 1})
		})
	}
}

func (d *difference) sessions(was *plan.Activity) {
	gone := map[string]*plan.Session{}
	for i := range was.Sessions {
		gone[partName(was.Sessions[i].ExternalID, was.Sessions[i].ID)] = &was.Sessions[i]
	}
	for i := range d.doc.Sessions {
		draft, location := &d.doc.Sessions[i], fmt.Sprintf("body.sessions[%d]", i)
		old := gone[draft.ExternalID]
		delete(gone, draft.ExternalID)
		d.session(location, "/sessions/"+pointer.Replace(draft.ExternalID), draft, old)
	}
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		t := gone[name]
		d.remove("body.sessions", "/sessions/"+pointer.Replace(name), t.Name, func(ctx context.Context) error {
			if err := d.c.q.DeleteSession(ctx, t.ID); err != nil {
				return fmt.Errorf("change: delete session: %w", err)
			}
			return d.c.record(ctx, "session.delete", plan.SessionSubject(t.ID), deleted(t.View()))
		})
	}
}

func (d *difference) session(location, path string, draft *plan.SessionDraft, old *plan.Session) {
	c, row := d.c, draft.Rows().SeckillSession
	isNew := old == nil
	if isNew {
		d.fresh--
		row.ID, old = d.fresh, &plan.Session{}
	} else {
		row.ID, row.ActivityID, row.Version, row.RepeatOf, row.RepeatDay = old.ID, old.ActivityID, old.Version, old.RepeatOf, old.RepeatDay
		row.CreatedAt, row.UpdatedAt = old.CreatedAt, old.UpdatedAt
	}
	d.flaws.Session(location, &row, &d.target.SeckillActivity)
	d.places[plan.SessionSubject(row.ID)] = location
	fields := fieldsOf(plan.ViewSession(&old.SeckillSession), plan.ViewSession(&row))
	switch {
	case isNew && d.before == nil: // created with its activity
		d.changes = append(d.changes, planChange{path, "create", nil})
	case isNew:
		d.allow(location, path, "create", nil, nil)
		c.ahead(&d.flaws, location+".opens_at", row.OpensAt)
		d.writes = append(d.writes, func(ctx context.Context) error {
			_, err := c.insertDraft(ctx, location, draft)
			return err
		})
	case len(fields) > 0:
		before := old.SeckillSession
		d.allow(location, path, "change", fields, func() error { return c.correctSession(&d.flaws, location, before, row) })
		if !c.onlyCorrections() {
			c.ahead(&d.flaws, location+".opens_at", row.OpensAt)
			c.capHolds(&d.flaws, location, &before, &row)
		}
		d.writes = append(d.writes, func(ctx context.Context) error {
			_, err := writeSession(ctx, c, old, row)
			return err
		})
	}
	d.target.Sessions = append(d.target.Sessions, plan.Session{SeckillSession: row})
	d.items(location, path, draft, old, isNew)
}

func (d *difference) items(location, path string, draft *plan.SessionDraft, was *plan.Session, isNew bool) {
	gone := map[string]*seckilldb.SeckillItem{}
	for i := range was.Items {
		gone[partName(was.Items[i].ExternalID, was.Items[i].ID)] = &was.Items[i]
	}
	for j := range draft.Items {
		in := &draft.Items[j]
		old := gone[in.ExternalID]
		delete(gone, in.ExternalID)
		d.item(fmt.Sprintf("%s.items[%d]", location, j), path+"/items/"+pointer.Replace(in.ExternalID), in, old, was.ID, isNew)
	}
	for _, name := range slices.Sorted(maps.Keys(gone)) {
		item := gone[name]
		d.remove(location+".items", path+"/items/"+pointer.Replace(name), item.Title, func(ctx context.Context) error {
			if err := d.c.q.DeleteItem(ctx, item.ID); err != nil {
				return fmt.Errorf("change: delete item: %w", err)
			}
			return d.c.record(ctx, "item.delete", inventory.ItemSubject(item.ID), deleted(plan.ViewItem(item)))
		})
	}
}

func (d *difference) item(location, path string, in *plan.ItemDraft, old *seckilldb.SeckillItem, session int64, inNew bool) {
	c, row := d.c, in.Row()
	if old == nil {
		d.fresh--
		row.ID = d.fresh
	} else {
		row.ID, row.SessionID, row.ActivityID, row.Version, row.LoadWanted, row.LoadDone = old.ID, old.SessionID, old.ActivityID, old.Version, old.LoadWanted, old.LoadDone
		row.CreatedAt, row.UpdatedAt, row.Paused, row.Admission = old.CreatedAt, old.UpdatedAt, old.Paused, old.Admission
		row.OversellPercent, row.OversellReason = old.OversellPercent, old.OversellReason
	}
	detail := plan.DetailDraft{Images: []string{}}
	if in.Detail != nil {
		detail.Description, detail.Images = in.Detail.Description, append(detail.Images, in.Detail.Images...)
		d.flaws.Detail(location+".detail", in.Detail)
	}
	d.flaws.Item(location, &row, old, in.SalePrice.Currency)
	d.places[inventory.ItemSubject(row.ID)] = location
	t := &d.target.Sessions[len(d.target.Sessions)-1]
	t.Items = append(t.Items, row)
	switch {
	case old == nil && inNew: // created with its session
		d.changes = append(d.changes, planChange{path, "create", nil})
		return
	case old == nil:
		d.allow(location, path, "create", nil, nil)
		d.writes = append(d.writes, func(ctx context.Context) error {
			made, err := c.insertItem(ctx, location, session, in.Row())
			if err != nil {
				return err
			}
			return c.putDetails(ctx, []plan.ItemView{plan.ViewItem(&made)}, []plan.ItemDraft{*in})
		})
		return
	}
	fields := fieldsOf(plan.ViewItem(old), plan.ViewItem(&row))
	if len(fields) > 0 {
		d.allow(location, path, "change", fields, func() error { return c.correctItem(location, *old, row) })
		d.writes = append(d.writes, func(ctx context.Context) error {
			row.Version++
			if err := c.putItem(ctx, &row); err != nil {
				return err
			}
			return c.record(ctx, "item.edit", inventory.ItemSubject(row.ID), edited(plan.ViewItem(old), plan.ViewItem(&row)))
		})
	}
	before, written := d.details[row.ID]
	if !written {
		before.Images = []string{}
	}
	if !unchanged(before.DetailDraft, detail) {
		d.allow(location+".detail", path, "change", []string{"detail"}, right)
		d.writes = append(d.writes, func(ctx context.Context) error {
			return c.putDetail(ctx, row.ID, before, plan.WrittenDetail{DetailDraft: detail, Version: before.Version + 1})
		})
	}
}

// remove records that a part is to go, which location should list to keep it.
func (d *difference) remove(location, path, name string, do func(context.Context) error) {
	d.changes = append(d.changes, planChange{path, "remove", nil})
	if c := d.c; c.onlyCorrections() {
		refusal := fault.From(plan.Permit(c.phase, c.activity.Paused, plan.ActEdit))
		d.refuse(location, refusal.Saying(fault.T(`"{name}" ({path}) is missing here and cannot be removed: {why}`,
			"此处缺少“{name}”（{path}），且不能删除：{why}", "name", name, "path", path, "why", refusal.Detail)))
		return
	}
	d.removals = append(d.removals, do)
}

// whole checks what no part shows by itself: that a published plan still has an item and can
// be paid, and that a draft may be published.
func (d *difference) whole() {
	c, count := d.c, 0
	for range d.target.Items() {
		count++
	}
	edits := c.published() && !c.onlyCorrections() && len(d.changes) > 0
	if edits && count == 0 {
		d.refuse("body.sessions", errLastItem)
	}
	var f plan.Flaws
	if d.publishes {
		f = d.target.Complete(c.s.cfg, c.at)
	}
	if d.publishes || edits {
		f = append(f, d.target.Payable(c.s.cfg)...)
	}
	for _, flaw := range f {
		flaw.Location = cmp.Or(d.places[flaw.Location], "body."+flaw.Location)
		d.flaws = append(d.flaws, flaw)
	}
}

// partName is the external id of a part; the name of a part without one has a space, so
// that no document has it.
func partName(externalID *string, id int64) string {
	return pg.ValueOr(externalID, fmt.Sprintf(" #%d", id))
}

// pointer writes the name of a part as JSON pointers do.
var pointer = strings.NewReplacer("~", "~0", "/", "~1", " ", "")

// fieldsOf lists the members of two views of a row that differ.
func fieldsOf(before, after any) (fields []string) {
	was, is := membersOf(before), membersOf(after)
	for name, value := range is {
		if name != "on_sale" && name != "id" && !bytes.Equal(was[name], value) { // on_sale follows from the stock
			fields = append(fields, name)
		}
	}
	slices.Sort(fields)
	return fields
}

func membersOf(view any) (members map[string]json.RawMessage) {
	raw, err := json.Marshal(view)
	if err == nil {
		err = json.Unmarshal(raw, &members)
	}
	if err != nil {
		panic(fmt.Sprintf("change: a view of the plan is no JSON object: %v", err)) // views are plain structs
	}
	return members
}
