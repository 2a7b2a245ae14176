package seckill

import (
	"context"
	"fmt"
	"log/slog"

	"stampede/inventory"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
)

// backupMove is the body of a request to move units between sale and backup.
type backupMove struct {
	Units int32 `json:"units" minimum:"-10000000" maximum:"10000000" doc:"Above 0: from the sale to the backup; below 0: from the backup to the sale" example:"5"`
}

// backupMoved is the answer to it.
type backupMoved struct {
	Moved int32    `json:"moved" doc:"How many units moved, with the sign of the request: no more than were available"`
	Item  itemView `json:"item"`
}

// moveBackup moves units of an item between its sale and its backup, also while it
// runs.
func (s *Service) moveBackup(ctx context.Context, key string, id int64, in backupMove) (backupMoved, error) {
	var out backupMoved
	request := struct {
		ItemID wire.ID
		backupMove
	}{wire.ID(id), in}
	err := s.transact(ctx, func(ctx context.Context, c *change) (err error) {
		out, err = once(ctx, c, key, "item.backup", request, func() (backupMoved, error) { return c.moveBackup(ctx, id, in.Units) })
		return err
	})
	return out, err
}

// moveBackup moves what can be moved in inventory and changes the plan by the same
// units. An oversold item is refused: its units on sale are a share beyond the
// stock, which would have to move too.
func (c *change) moveBackup(ctx context.Context, id int64, units int32) (backupMoved, error) {
	_, item, err := c.lockItem(ctx, id, actAddStock)
	if err != nil {
		return backupMoved{}, err
	}
	var f flaws
	f.add(units != 0 && units >= -maxStock && units <= maxStock, "body.units", units, "Between 1 and %d units can be moved, in either direction.", maxStock)
	f.add(!item.Unlimited, "body.units", units, "An unlimited item has no backup.")
	f.add(item.OversellPercent == 0, "body.units", units, "An item that is sold beyond its stock by agreement keeps its backup as planned.")
	if err := f.err(); err != nil {
		return backupMoved{}, err
	}
	var moved int32
	if units > 0 {
		moved, err = c.s.deps.Stock.ToBackup(ctx, c.tx, id, units)
	} else {
		moved, err = c.s.deps.Stock.FromBackup(ctx, c.tx, id, -units)
		moved = -moved
	}
	if err != nil {
		return backupMoved{}, fmt.Errorf("seckill: move backup of item %d: %w", id, err)
	}
	if moved == 0 {
		return backupMoved{Item: viewItem(&item)}, nil
	}
	if item, err = c.q.MoveItemBackup(ctx, seckilldb.MoveItemBackupParams{ID: id, Units: moved}); err != nil {
		return backupMoved{}, fmt.Errorf("seckill: move backup: %w", err)
	}
	c.did = []slog.Attr{slog.String("action", "move-backup"), slog.Int64("item_id", id), slog.Int("units", int(moved))}
	c.apply = append(c.apply, id)
	if err := c.touch(ctx); err != nil {
		return backupMoved{}, err
	}
	err = c.record(ctx, "item.backup", inventory.ItemSubject(id), map[string]int32{"requested": units, "moved": moved, "stock": item.Stock, "backup": item.Backup})
	return backupMoved{Moved: moved, Item: viewItem(&item)}, err
}
