package seckill

import (
	"context"

	"stampede/platform/edge/httpx"
	"stampede/seckill/browse"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
)

// previewRoute registers the preview of an item. Only the staff reads a draft: a secret
// address would be passed on, and the draft with it.
func (s *Service) previewRoute(api httpx.API) {
	op := readOp(adminBase+"/items/{id}/preview", "preview-item", "An item as shoppers will see it, also of a draft", readProblems)
	op.Description = "What GET items/{id} and GET items/{id}/detail answer once it is published, with none of its units taken. The shop's page /?preview={id} shows it to those who are signed in to the back office."
	httpx.Register(api, op, func(ctx context.Context, in *ByID) (*bodyOf[browse.Preview], error) {
		return answerByID(in.ID, func(id int64) (browse.Preview, error) { return s.preview(ctx, id) })
	})
}

// preview renders an item from one snapshot of its plan and texts.
func (s *Service) preview(ctx context.Context, id int64) (out browse.Preview, err error) {
	err = s.snapshot(ctx, func(q *seckilldb.Queries) error {
		item, err := q.Item(ctx, id)
		if err != nil {
			return orNotFound(err, errNoItem, "read item")
		}
		row, err := q.Activity(ctx, item.ActivityID)
		if err != nil {
			return orNotFound(err, errNoActivity, "read activity")
		}
		tree, err := readTree(ctx, q, []seckilldb.SeckillActivity{row})
		if err != nil {
			return err
		}
		written, err := detailOf(ctx, q, id)
		if err != nil {
			return err
		}
		rules, err := rulesOf(ctx, q, row.ID)
		if err != nil {
			return err
		}
		for _, session := range shown(&tree[0]).Sessions {
			for i := range session.Items {
				if session.Items[i].ID == wire.ID(id) {
					out, err = browse.PreviewOf(&session, &session.Items[i], browse.Detail{Images: written.Images, Description: written.Description, Rules: rules.Rules}, s.deps.Clock.Now())
					return err
				}
			}
		}
		return errNoItem
	})
	return out, err
}
