package change

import (
	"context"
	"fmt"
	"net/http"

	"stampede/inventory"
	"stampede/platform/edge/httpx"
	"stampede/seckill/internal/operator"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/plan"
)

func (s *Service) detailRoutes(api httpx.API) {
	const items, activities = operator.Base + "/items/{id}/detail", operator.Base + "/activities/{id}/rules"
	read(api, operator.Read(items, "admin-get-item-detail", "An item's description and pictures, as operators wrote them"), s.readDetail)
	edit(s, api, operator.Write(http.MethodPut, items, "set-item-detail", "item.detail", "Replace an item's description and pictures, at any time until the end",
		http.StatusOK, patchRefusals...), setDetail)
	read(api, operator.Read(activities, "get-activity-rules", "An activity's rules in words, as operators wrote them"), s.readRules)
	edit(s, api, operator.Write(http.MethodPut, activities, "set-activity-rules", "activity.rules", "Replace an activity's rules in words, at any time until the end",
		http.StatusOK, patchRefusals...), setRules)
}

func (s *Service) readDetail(ctx context.Context, id int64) (plan.WrittenDetail, error) {
	q := seckilldb.New(s.deps.DB)
	if _, err := itemRow(ctx, q, id); err != nil {
		return plan.WrittenDetail{}, err
	}
	return plan.DetailOf(ctx, q, id)
}

func setDetail(ctx context.Context, c *change, id int64, in plan.WrittenDetail) (plan.WrittenDetail, error) {
	if _, _, err := c.lockItem(ctx, id, plan.ActEditOrCorrect); err != nil {
		return in, err
	}
	in.Images = append([]string{}, in.Images...)
	var f plan.Flaws
	f.Detail("body", &in.DetailDraft)
	if err := f.Err(); err != nil {
		return in, err
	}
	before, err := plan.DetailOf(ctx, c.q, id)
	if err != nil {
		return in, err
	}
	if unchanged(before.DetailDraft, in.DetailDraft) { // a repeated request has the version of the first
		return before, nil
	}
	if in.Version != before.Version {
		return in, plan.ErrStale(before.Version)
	}
	in.Version++
	if err := c.putDetail(ctx, id, before, in); err != nil {
		return in, err
	}
	return in, c.touch(ctx)
}

func (c *change) putDetail(ctx context.Context, id int64, before, in plan.WrittenDetail) error {
	if err := c.q.PutItemDetail(ctx, seckilldb.PutItemDetailParams{ItemID: id, Description: in.Description, Images: in.Images}); err != nil {
		return fmt.Errorf("change: write item detail: %w", err)
	}
	c.details = append(c.details, id)
	return c.record(ctx, "item.detail", inventory.ItemSubject(id), edited(before, in))
}

func (c *change) putDetails(ctx context.Context, items []plan.ItemView, drafts []plan.ItemDraft) error {
	for i := range drafts {
		if drafts[i].Detail == nil {
			continue
		}
		none := plan.DetailDraft{Images: []string{}}
		made := plan.DetailDraft{Description: drafts[i].Detail.Description, Images: append([]string{}, drafts[i].Detail.Images...)}
		if err := c.putDetail(ctx, int64(items[i].ID), plan.WrittenDetail{DetailDraft: none}, plan.WrittenDetail{DetailDraft: made, Version: 1}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) readRules(ctx context.Context, id int64) (plan.ActivityRules, error) {
	if _, err := seckilldb.New(s.deps.DB).Activity(ctx, id); err != nil {
		return plan.ActivityRules{}, plan.OrNotFound(err, plan.ErrNoActivity, "read activity")
	}
	return plan.RulesOf(ctx, seckilldb.New(s.deps.DB), id)
}

func setRules(ctx context.Context, c *change, id int64, in plan.ActivityRules) (plan.ActivityRules, error) {
	if err := c.lock(ctx, id, plan.ActEditOrCorrect); err != nil {
		return in, err
	}
	var f plan.Flaws
	f.Markdown("body.rules", in.Rules)
	if err := f.Err(); err != nil {
		return in, err
	}
	before, err := plan.RulesOf(ctx, c.q, id)
	if err != nil {
		return in, err
	}
	if before.Rules == in.Rules {
		return before, nil
	}
	if in.Version != before.Version {
		return in, plan.ErrStale(before.Version)
	}
	in.Version++
	if err := c.putRules(ctx, before, in); err != nil {
		return in, err
	}
	items, err := c.q.ItemsOf(ctx, []int64{id})
	if err != nil {
		return in, fmt.Errorf("change: read items of activity %d: %w", id, err)
	}
	for i := range items {
		c.details = append(c.details, items[i].ID)
	}
	return in, c.touch(ctx)
}

func (c *change) putRules(ctx context.Context, before, in plan.ActivityRules) error {
	if err := c.q.PutActivityRules(ctx, seckilldb.PutActivityRulesParams{ActivityID: c.activity.ID, Rules: in.Rules}); err != nil {
		return fmt.Errorf("change: write activity rules: %w", err)
	}
	return c.record(ctx, "activity.rules", plan.ActivitySubject(c.activity.ID), edited(before, in))
}
