package dispute

import (
	"context"
	"fmt"

	"stampede/order/dispute/internal/disputedb"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
)

// Dispute is a dispute as its shopper reads it.
type Dispute struct {
	DisputeNo ids.ID        `json:"dispute_no" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f63"`
	OrderNo   ids.ID        `json:"order_no"`
	Status    string        `json:"status" enum:"open,answered,closed" doc:"open: it waits for the shop; answered: for the shopper"`
	Outcome   string        `json:"outcome,omitempty" enum:"refund,no_refund" doc:"Of a closed one"`
	RefundNo  *ids.ID       `json:"refund_no,omitempty" doc:"The refund that closed it" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f62"`
	Reason    string        `json:"reason" example:"收到的鞋码不对"`
	Texts     []disputeText `json:"texts,omitempty" nullable:"false" doc:"What was written after the reason, the oldest first; left out in lists"`
	Version   int32         `json:"version" doc:"Rises with every change"`
	CreatedAt string        `json:"created_at" format:"date-time"`
	UpdatedAt string        `json:"updated_at" format:"date-time"`
}

// disputeText is what one side wrote.
type disputeText struct {
	By   string `json:"by" enum:"shopper,minted token,shop" doc:"minted token: of stampede token, for the shopper"`
	Text string `json:"text"`
	At   string `json:"at" format:"date-time"`
	// Operator is left out for shoppers.
	Operator string `json:"operator,omitempty" doc:"Who wrote it for the shop; shown to operators" example:"7"`
}

// AdminDispute is a dispute as operators read it.
type AdminDispute struct {
	Dispute
	UserID       string `json:"user_id"`
	OpenedBy     string `json:"opened_by" enum:"shopper,minted token" doc:"minted token: of stampede token, for the shopper"`
	WaitingSince string `json:"waiting_from,omitempty" format:"date-time" doc:"Since when an open one waits for the shop"`
	ClosedBy     string `json:"closed_by,omitempty" doc:"The operator" example:"7"`
}

// State is what an order's documents say of a dispute.
type State struct {
	DisputeNo ids.ID `json:"dispute_no"`
	Status    string `json:"status" enum:"open,answered,closed" doc:"open: it waits for the shop; answered: for the shopper"`
	Outcome   string `json:"outcome,omitempty" enum:"refund,no_refund" doc:"Of a closed one"`
	CreatedAt string `json:"created_at" format:"date-time"`
	UpdatedAt string `json:"updated_at" format:"date-time"`
}

// Of returns the disputes of an order, the oldest first; most orders have none.
func (s *Service) Of(ctx context.Context, order ids.ID) ([]State, error) {
	rows, err := disputedb.New(s.deps.DB).DisputesOfOrder(ctx, order)
	if err != nil {
		return nil, fmt.Errorf("dispute: read those of %s: %w", order, err)
	}
	list := make([]State, len(rows))
	for i, d := range rows {
		list[i] = State{DisputeNo: d.DisputeNo, Status: d.Status, Outcome: d.Outcome, CreatedAt: httpx.Moment(d.CreatedAt), UpdatedAt: httpx.Moment(d.UpdatedAt)}
	}
	return list, nil
}

// writing is a text with who wrote it.
func writing(t *disputedb.OrdersDisputeText) disputeText {
	w := disputeText{By: shopperOr(t.Minted), Text: t.Text, At: httpx.Moment(t.At), Operator: given(t.Operator, httpx.FormatID)}
	if t.Operator != nil {
		w.By = "shop"
	}
	return w
}

// shopperOr names who wrote as the shopper, as an order's history does.
func shopperOr(minted bool) string {
	if minted {
		return "minted token"
	}
	return "shopper"
}

// view shows a dispute to its shopper, with those of the texts that are its own.
func view(d row, texts []disputedb.OrdersDisputeText) Dispute {
	v := withOperators(d, texts)
	for i := range v.Texts {
		v.Texts[i].Operator = ""
	}
	return v
}

func withOperators(d row, texts []disputedb.OrdersDisputeText) Dispute {
	v := Dispute{
		DisputeNo: d.DisputeNo, OrderNo: d.OrderNo, Status: d.Status, Outcome: d.Outcome, RefundNo: refundNo(d), Reason: d.Reason, Version: d.Version,
		CreatedAt: httpx.Moment(d.CreatedAt), UpdatedAt: httpx.Moment(d.UpdatedAt),
	}
	for i := range texts {
		if texts[i].DisputeNo == d.DisputeNo {
			v.Texts = append(v.Texts, writing(&texts[i]))
		}
	}
	return v
}

func adminView(d row, texts []disputedb.OrdersDisputeText) AdminDispute {
	return AdminDispute{
		Dispute: withOperators(d, texts), UserID: httpx.FormatID(d.UserID), OpenedBy: shopperOr(d.Minted),
		WaitingSince: given(d.WaitingSince, httpx.Moment), ClosedBy: given(d.ClosedBy, httpx.FormatID),
	}
}

// given formats a value, "" for none.
func given[V any](v *V, format func(V) string) string {
	if v == nil {
		return ""
	}
	return format(*v)
}
