package seckill

import (
	"context"
	"time"

	"stampede/platform/watch/tally"
	"stampede/seckill/internal/wire"
)

// funnelSumView is the funnel of several items.
type funnelSumView struct {
	FunnelCounts
	Items []itemCounts `json:"items" doc:"Each item's share"`
}

// itemCounts is what was counted about one item of several.
type itemCounts struct {
	ItemID wire.ID      `json:"item_id"`
	Title  string       `json:"title"`
	Counts tally.Counts `json:"counts" doc:"By stage and code"`
}

// sumFunnels adds up the funnels of the items of sessions. The moments are the
// first and the last over all items; the sum is emptied when the first item is.
func (s *Service) sumFunnels(ctx context.Context, in *curveInput, sessions ...sessionView) (funnelSumView, error) {
	var ids []int64
	var opens time.Time
	v := funnelSumView{Items: []itemCounts{}}
	for _, session := range sessions {
		if at := time.Time(session.OpensAt); opens.IsZero() || at.Before(opens) {
			opens = at
		}
		for _, item := range session.Items {
			ids = append(ids, int64(item.ID))
			v.Items = append(v.Items, itemCounts{ItemID: item.ID, Title: item.Title, Counts: tally.Counts{}})
		}
	}
	totals, err := tally.Totals(ctx, s.deps.DB, ids...)
	if err != nil {
		return funnelSumView{}, err
	}
	moments, err := tally.Moments(ctx, s.deps.DB, ids...)
	if err != nil {
		return funnelSumView{}, err
	}
	v.FunnelCounts = funnelOf(s.deps.Clock.Now(), tally.Sum(totals), moments)
	for i := range v.Items {
		if c := totals[int64(v.Items[i].ItemID)]; c != nil {
			v.Items[i].Counts = c
		}
	}
	v.Curve, err = s.curve(ctx, in, opens, ids...)
	return v, err
}
