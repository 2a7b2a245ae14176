package seckill

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/inventory"
	"stampede/platform/watch/proof"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilldb"
)

// Checks are the invariants that this module can prove: the units on sale are
// the units that an operator put on sale. Inventory proves where the units are.
func (s *Service) Checks() []proof.Check { return Checks(s.deps.DB, s.deps.Stock) }

// Checks is Service.Checks for a process that serves no requests, such as
// verify.
func Checks(db *pgxpool.Pool, stock *inventory.Service) []proof.Check {
	return []proof.Check{{ID: "I2", Name: "stock follows the plan", Run: func(ctx context.Context) ([]proof.Violation, error) {
		first, err := offPlan(ctx, db, stock)
		if err != nil || len(first) == 0 {
			return nil, err
		}
		// The plan and the stock are two reads, and a change may commit between them. A violation counts only
		// if it is still there, in the same words, after a pause.
		if err := proof.Pause(ctx); err != nil {
			return nil, err
		}
		second, err := offPlan(ctx, db, stock)
		if err != nil {
			return nil, err
		}
		var found []proof.Violation
		for _, v := range second {
			for _, seen := range first {
				if v == seen {
					found = append(found, v)
				}
			}
		}
		return found, nil
	}}}
}

// offPlan compares the published items with the stock rows, both ways.
func offPlan(ctx context.Context, db *pgxpool.Pool, stock *inventory.Service) ([]proof.Violation, error) {
	planned, err := seckilldb.New(db).PlannedStock(ctx)
	if err != nil {
		return nil, fmt.Errorf("seckill: read planned stock: %w", err)
	}
	total, err := stock.Totals(ctx)
	if err != nil {
		return nil, fmt.Errorf("seckill: read stock: %w", err)
	}
	var found []proof.Violation
	for _, p := range planned {
		have, ok := total[p.ID]
		delete(total, p.ID)
		switch {
		case !ok:
			found = append(found, proof.Violation{Subject: catalogue.ItemSubject(p.ID), Detail: "The item is published but has no stock row."})
		case !p.Unlimited && have != p.OnSale:
			found = append(found, proof.Violation{
				Subject: catalogue.ItemSubject(p.ID),
				Detail:  fmt.Sprintf("An operator put %d units on sale; the stock row has %d.", p.OnSale, have),
			})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(total)) {
		found = append(found, proof.Violation{Subject: catalogue.ItemSubject(id), Detail: "There is a stock row for an item that is not published."})
	}
	return found, nil
}
