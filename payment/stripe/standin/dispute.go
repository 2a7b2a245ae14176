package standin

import (
	"strings"
	"time"

	"stampede/payment/sandbox"
)

// respondWithin is how long a shop may answer a dispute.
const respondWithin = 7 * 24 * time.Hour

// disputed is a dispute in the company's form, and the event that reports it. As at the
// company, a report does not always have the movement yet that another is about.
func disputed(p sandbox.Payment, d sandbox.Dispute) (kind string, content object) {
	kind, status := "charge.dispute.created", "needs_response"
	switch {
	case d.Asked:
		status = "warning_needs_response"
	case d.Ended && d.Moved:
		kind, status = "charge.dispute.funds_reinstated", "won"
	case d.Ended && d.Won:
		kind, status = "charge.dispute.closed", "won"
	case d.Ended:
		kind, status = "charge.dispute.closed", "lost"
	case d.Moved:
		kind = "charge.dispute.funds_withdrawn"
	}
	money, moved := strings.ToLower(p.Currency), []object{}
	if d.Moved || d.Ended {
		moved = append(moved, object{"id": "txn_1", "object": "balance_transaction", "amount": -units(p.Captured, p.Currency), "currency": money})
	}
	return kind, object{
		"id": disputeID + p.Ref.String(), "object": "dispute", "livemode": false, "amount": units(p.Captured, p.Currency), "currency": money, "status": status,
		"reason": "product_not_received", "charge": "ch_" + p.Ref.String(), "payment_intent": intentID + p.Ref.String(),
		"balance_transactions": moved, "evidence_details": object{"due_by": p.At.Add(respondWithin).Unix()},
	}
}
