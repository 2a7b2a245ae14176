// Package actions keeps what operators did with orders and why, and what they noted about
// them.
//
// # Owns
//
// The table orders.acts: a row per action, written in the transaction of its effect. An
// order's history has what became of it; an action adds the operator's words, which
// shoppers do not read. They may name people: package order erases them when the order
// ended long enough ago, or soon after its end if the shopper deleted the account.
package actions

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/actions/internal/actionsdb"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

// What an operator did.
const (
	Cancel   = "cancel"
	Refund   = "refund"
	Complete = "complete"
	Ship     = "ship"
	Note     = "note"
)

// Action is one action on an order.
type Action struct {
	Operator int64
	Action   string // Cancel …
	Text     string // why, or the note; at most 500 characters
	Version  int32  // the order's after it
	At       time.Time
}

// Record writes what the operator in ctx did with an order, which is as it is after it,
// and why, in the transaction of the effect.
func Record(ctx context.Context, tx pgx.Tx, o *orderevent.Order, action, why string) error {
	err := actionsdb.New(tx).Put(ctx, actionsdb.PutParams{
		Bucket: o.No.Bucket(), OrderNo: o.No, ActNo: ids.NewFor(o.UserID), UserID: o.UserID,
		Operator: auth.From(ctx).UserID, Action: action, Text: why, Version: o.Version,
	})
	if err != nil {
		return fmt.Errorf("actions: record %s of order %s: %w", action, o.No, err)
	}
	return nil
}

// OperatorIn is how an order's history names the operator of a request.
func OperatorIn(ctx context.Context) string {
	return "operator " + httpx.FormatID(auth.From(ctx).UserID)
}

// Of returns an order's actions, oldest first.
func Of(ctx context.Context, db actionsdb.DBTX, no ids.ID) ([]Action, error) {
	rows, err := actionsdb.New(db).OfOrder(ctx, actionsdb.OfOrderParams{OrderNo: no, Bucket: no.Bucket()})
	if err != nil {
		return nil, fmt.Errorf("actions: read those of order %s: %w", no, err)
	}
	list := make([]Action, len(rows))
	for i, r := range rows {
		list[i] = Action(r)
	}
	return list, nil
}
