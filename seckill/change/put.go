package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/external"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
	"stampede/seckill/internal/operator"
	"stampede/seckill/plan"
)

// ByExternalID is the id in a path. It is exported because huma only inspects exported
// embedded fields.
type ByExternalID struct {
	ExternalID string `path:"external_id" doc:"What the shop's own system calls the activity; a slash in it is written %2F" example:"campaign-2026-11"`
}

// Resolve reads the id from the path as it was sent: the router decodes a path only where
// that loses nothing, so that an id with a slash would come encoded and others not.
func (in *ByExternalID) Resolve(ctx huma.Context) []error {
	sent := ctx.URL()
	if id, err := url.PathUnescape(path.Base(sent.EscapedPath())); err == nil {
		in.ExternalID = id
	}
	return nil
}

type puttingPlan struct {
	ByExternalID
	DryRun bool `query:"dry_run" doc:"Do everything and take it back: the answer says what the document would change"`
	Body   plan.WholeActivity
}

// planOutcome is what a document changed.
type planOutcome struct {
	DryRun    bool                `json:"dry_run" doc:"Nothing was changed"`
	Changed   bool                `json:"changed" doc:"false: the activity was exactly this already; nothing was recorded and no version rose"`
	Changes   []planChange        `json:"changes" nullable:"false"`
	Activity  *plan.ActivityView  `json:"activity,omitempty" doc:"As it is now; left out of a dry run"`
	Preflight *plan.PreflightView `json:"preflight,omitempty" doc:"Of a dry run, and when the activity was published: the lines above ok. The subject of a line is the place in the document"`
}

// planChange is one row that a document creates, changes or removes.
type planChange struct {
	Path   string   `json:"path" doc:"JSON pointer by external ids, empty for the activity itself. A part without one is #id" example:"/sessions/evening/items/phone-15"`
	Action string   `json:"action" enum:"create,change,remove,publish"`
	Fields []string `json:"fields,omitempty" nullable:"false" doc:"The members that change" example:"[\"stock\"]"`
}

func (s *Service) planRoutes(api httpx.API) {
	const base = operator.Base + "/activities/by-external-id/{external_id}"
	get := operator.Read(base, "get-activity-document", "An activity as one document, which PUT takes", fault.ErrNotFound)
	httpx.Register(api, get, func(ctx context.Context, in *ByExternalID) (*operator.Body[plan.WholeActivity], error) {
		doc, err := plan.ReadDocument(ctx, s.deps.DB, in.ExternalID)
		if err != nil {
			return nil, err
		}
		return &operator.Body[plan.WholeActivity]{Body: doc}, nil
	})
	put := operator.Write(http.MethodPut, base, "put-activity-document", "activity.plan", "Make an activity exactly what the document says: create, change and remove",
		http.StatusOK, fault.ErrTransition, plan.ErrNotEditable, plan.ErrFrozen)
	put.Description = "Sessions and items are found by their external ids, whatever their order. What the document leaves out is removed, or has its default again, by the rules " +
		"of the single routes; a refusal lists every place that breaks a rule. Sent again it changes nothing. Requests for one id are applied one after the other. " +
		"Once the sale has begun, units are added by add-stock; a document whose stock is not the present one is refused, so take it from GET. " +
		"Agreements to oversell, pauses and admission rates have routes of their own and stay. The audit log has each row's change besides."
	httpx.Register(api, put, func(ctx context.Context, in *puttingPlan) (*operator.Body[planOutcome], error) {
		out, err := s.putPlan(ctx, in)
		if err != nil {
			return nil, err
		}
		return &operator.Body[planOutcome]{Body: out}, nil
	})
}

var (
	// errDryRun takes a change back that could have been made.
	errDryRun = errors.New("change: a dry run")
	// errMoved is another request that created, deleted or renamed the activity meanwhile.
	errMoved = errors.New("change: the external id is another activity's now")
)

// putAttempts is how often a request gives way to others that create, delete or rename the
// activity of its id; after the first of them it finds the activity and waits for its row.
const putAttempts = 5

// errOvertaken answers a document that has given way each time.
var errOvertaken = fault.Plain(fault.Unavailable, fault.T("Other requests keep creating, deleting or renaming the activity with this external id. Nothing was changed; send the document again.",
	"其他请求正在反复新建、删除或改名使用该外部编号的活动。未作任何更改，请重新提交。"))

func (s *Service) putPlan(ctx context.Context, in *puttingPlan) (out planOutcome, err error) {
	doc := &in.Body
	var f plan.Flaws
	f.Add(external.ValidID(in.ExternalID), "path.external_id", in.ExternalID, external.IDRule)
	f.Add(doc.ExternalID == "" || doc.ExternalID == in.ExternalID, "body.external_id", doc.ExternalID,
		fault.T("The path has another external id; leave this one out.", "与路径中的外部编号不一致，可不填。"))
	f.Named(doc)
	doc.ExternalID = in.ExternalID
	for range putAttempts {
		var d *difference
		err = s.transact(ctx, func(ctx context.Context, c *change) (err error) {
			if d, err = compare(ctx, c, doc, f); err == nil {
				out, err = d.apply(ctx)
			}
			if err == nil && in.DryRun {
				err = errDryRun
			}
			return err
		})
		switch {
		case errors.Is(err, errMoved), pg.ViolatesUnique(err, "activities_external_id_key"):
			continue
		case errors.Is(err, errDryRun):
			out.DryRun, out.Activity, err = true, nil, nil
			out.Preflight = d.advice(ctx)
		case err == nil && d.publishes:
			out.Preflight = d.advice(ctx)
		}
		return out, err
	}
	return out, errOvertaken.After(time.Second).Because(err)
}

// advice is the preflight of the plan in the document, with its places as subjects.
func (d *difference) advice(ctx context.Context) *plan.PreflightView {
	d.target.ID = d.c.activity.ID
	found := d.c.s.advice(ctx, &d.target, d.c.at)
	for i := range found.Lines {
		found.Lines[i].Subject = cmp.Or(d.places[found.Lines[i].Subject], found.Lines[i].Subject)
	}
	return found
}

// apply writes what differs, and returns it with the activity as it is then.
func (d *difference) apply(ctx context.Context) (planOutcome, error) {
	c, out := d.c, planOutcome{Changed: len(d.changes) > 0, Changes: d.changes}
	if out.Changed {
		if err := d.write(ctx); err != nil {
			return out, err
		}
		did := audit.Change{After: map[string]any{"external_id": d.doc.ExternalID, "changes": d.changes, "has": partsIn(&d.target)}}
		if d.before != nil {
			did.Before = map[string]any{"external_id": d.doc.ExternalID, "has": partsIn(d.before)}
		}
		if err := c.record(ctx, "activity.plan", plan.ActivitySubject(c.activity.ID), did); err != nil {
			return out, err
		}
	}
	if d.publishes {
		if _, err := c.transition(ctx, c.activity.ID, plan.ActPublish, func(b *plan.Activity) error { return show(ctx, c, b) }); err != nil {
			return out, err
		}
	}
	tree, err := plan.Tree(ctx, c.q, c.activity)
	if err != nil {
		return out, err
	}
	out.Activity = new(tree.View())
	return out, nil
}

// partsIn counts an activity's parts for the audit log, which has each row beside it.
func partsIn(a *plan.Activity) (has struct {
	Sessions int `json:"sessions"`
	Items    int `json:"items"`
},
) {
	has.Sessions = len(a.Sessions)
	for range a.Items() {
		has.Items++
	}
	return has
}

// write writes what differs: first what is gone, so that what is new may have its SKU.
func (d *difference) write(ctx context.Context) error {
	c := d.c
	if d.before == nil {
		_, err := createActivity(ctx, c, d.doc.ActivityDraft)
		return err
	}
	if _, err := c.tx.Exec(ctx, `SET CONSTRAINTS seckill.items_session_id_sku_key DEFERRED`); err != nil {
		return fmt.Errorf("change: defer the check of skus: %w", err)
	}
	planned := d.before.Stock()
	for _, write := range append(d.removals, d.writes...) {
		if err := write(ctx); err != nil {
			return err
		}
	}
	return c.changedBelow(ctx, planned)
}

// findPlan makes the activity with an external id the activity of this change. The result is
// nil if there is none; errMoved asks for another attempt.
func findPlan(ctx context.Context, c *change, externalID string) (*plan.Activity, error) {
	row, err := c.q.ActivityByExternalID(ctx, externalID)
	if errors.Is(err, pgx.ErrNoRows) {
		c.phase = plan.PhaseDraft
		if err := c.tx.QueryRow(ctx, `SELECT now()`).Scan(&c.at); err != nil {
			return nil, fmt.Errorf("change: read the time: %w", err)
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("change: find activity: %w", err)
	}
	switch err := c.take(ctx, row.ID); {
	case errors.Is(err, plan.ErrNoActivity):
		return nil, errMoved
	case err != nil:
		return nil, err
	case pg.ValueOr(c.activity.ExternalID, "") != externalID:
		return nil, errMoved
	}
	return plan.Tree(ctx, c.q, c.activity)
}
