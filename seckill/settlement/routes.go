package settlement

import (
	"context"
	"fmt"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/seckill/internal/operator"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
	"stampede/seckill/plan"
)

// ErrNotSettled refuses the kept report of a session that has none.
var ErrNotSettled = fault.New(fault.NotFound, "not-settled", fault.T("The session is not settled", "场次尚未结算"),
	fault.T("This session has no kept report: it is made by itself once the last payment window is over and the books have been proved.",
		"该场次还没有存档报告：最后的付款时限过后、账目核验完成时会自动生成。"),
	fault.T("Wait until the last payment window is over, or read the report of this moment, without kept.",
		"请等最后的付款时限过后再查看，或去掉 kept 查看当前报告。"))

// Kept returns the report of a settled session, in exactly the bytes that its hash is of, else ErrNotSettled.
func Kept(ctx context.Context, db pg.DB, session int64) ([]byte, error) {
	raw, err := seckilldb.New(db).KeptReport(ctx, session)
	if err != nil {
		return nil, plan.OrNotFound(err, ErrNotSettled, "read the kept report")
	}
	return []byte(raw), nil
}

// settlementView is a settled session in a list.
type settlementView struct {
	SessionID wire.ID `json:"session_id"`
	SettledAt string  `json:"settled_at" format:"date-time"`
	ProofID   wire.ID `json:"proof_id" doc:"GET /api/v1/admin/proof/{id} has what it found"`
	Status    string  `json:"status" enum:"proved,violated,failed" doc:"How the proof ended"`
	SHA256    string  `json:"sha256" doc:"SHA-256 of the kept report, in hex: GET /api/v1/admin/sessions/{id}/report?kept=true"`
}

type settlementsView struct {
	Settlements []settlementView `json:"settlements" doc:"By session; those that are not settled yet are missing"`
}

// Routes registers the operators' routes.
func (s *Service) Routes(api httpx.API) {
	op := operator.Read(operator.Base+"/activities/{id}/settlements", "list-settlements", "How the books of an activity's sessions were proved after each")
	op.Description = "A minute after the last payment window of a session the books are proved and its report is kept, by themselves; a proof that does not pass raises settlement-violated or settlement-unproved."
	httpx.Register(api, op, func(ctx context.Context, in *operator.ByID) (*operator.Body[settlementsView], error) {
		return operator.Answer(in.ID, func(id int64) (settlementsView, error) {
			rows, err := seckilldb.New(s.DB).SettlementsOf(ctx, id)
			if err != nil {
				return settlementsView{}, fmt.Errorf("settlement: list: %w", err)
			}
			out := settlementsView{Settlements: make([]settlementView, len(rows))}
			for i, r := range rows {
				out.Settlements[i] = settlementView{wire.ID(r.SessionID), httpx.Moment(*r.SettledAt), wire.ID(r.ProofRun), r.Status, r.Sha256}
			}
			return out, nil
		})
	})
}
