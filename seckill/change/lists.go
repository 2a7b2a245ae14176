package change

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/edge/httpx"
	"stampede/platform/watch/audit"
	"stampede/seckill/internal/operator"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
	"stampede/seckill/plan"
)

// The operators' view of reservations. Package reservation grants them.

var listReservationProblems = map[int]string{http.StatusNotFound: "not-found", http.StatusUnprocessableEntity: "invalid"}

type listingReservations struct {
	operator.ByID
	httpx.ChangesInput
}

// itemReservation is a reservation as operators see it.
type itemReservation struct {
	UserID     wire.ID   `json:"user_id"`
	ReservedAt wire.Time `json:"reserved_at"`
	HumanCheck bool      `json:"human_check" doc:"A proof of work was sent with it"`
}

func viewReservation(r *seckilldb.SeckillReservation) itemReservation {
	return itemReservation{UserID: wire.ID(r.UserID), ReservedAt: wire.Time(r.ReservedAt), HumanCheck: r.HumanOk}
}

// listReservations answers a page. It is ordered by user because the primary key
// is: any other order would add an index to the cost of every reservation.
func (s *Service) listReservations(ctx context.Context, in *listingReservations) (*httpx.PageOutput[itemReservation], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	q := seckilldb.New(s.deps.DB)
	if _, err := q.Item(ctx, id); err != nil {
		return nil, plan.OrNotFound(err, plan.ErrNoItem, "read item")
	}
	return operator.Page(&in.ChangesInput, viewReservation, func(r *seckilldb.SeckillReservation) int64 { return r.UserID }, func(r *seckilldb.SeckillReservation) time.Time { return r.ReservedAt },
		func(after int64, limit int32) ([]seckilldb.SeckillReservation, error) {
			return q.ReservationsOf(ctx, seckilldb.ReservationsOfParams{ItemID: id, After: after, RowLimit: limit})
		})
}

// countReservations fills in the number of reservations of each item.
func countReservations(ctx context.Context, db *pgxpool.Pool, views []plan.ItemView) error {
	ids := make([]int64, len(views))
	for i := range views {
		ids[i] = int64(views[i].ID)
	}
	counts, err := plan.Reservations(ctx, db, ids)
	if err != nil {
		return err
	}
	for i := range views {
		n := counts[ids[i]]
		views[i].Reservations = &n
	}
	return nil
}

// auditEntry is one action in the audit log.
type auditEntry struct {
	ID      wire.ID         `json:"id"`
	At      wire.Time       `json:"at"`
	Actor   string          `json:"actor" doc:"The operator's user id; 0 is the system"`
	Role    string          `json:"role" doc:"The operator's role at that time"`
	Action  string          `json:"action" example:"activity.publish" doc:"The thing and what was done to it; refused.… was requested and not allowed"`
	Subject string          `json:"subject" example:"activity 12" doc:"What it was done to"`
	Detail  json.RawMessage `json:"detail" doc:"What was before and after the change, one of them left out of what is new or gone, and the reason if one was given; of a search or an export, what was asked for"`
}

func viewAudit(e audit.Entry) auditEntry {
	return auditEntry{
		ID: wire.ID(e.ID), At: wire.Time(e.At), Actor: wire.ID(e.Actor).String(), Role: e.Role, Action: e.Action, Subject: e.Subject, Detail: e.Detail,
	}
}

// listAudit answers a page of operator actions, newest first.
func (s *Service) listAudit(ctx context.Context, in *listingAudit) (*httpx.PageOutput[auditEntry], error) {
	return operator.Page(&in.ChangesInput, func(e *audit.Entry) auditEntry { return viewAudit(*e) }, func(e *audit.Entry) int64 { return e.ID }, func(e *audit.Entry) time.Time { return e.At },
		func(before int64, limit int32) ([]audit.Entry, error) {
			list, err := audit.List(ctx, s.deps.DB, audit.Filter{Subject: in.Subject, Action: in.Action, Actor: in.Actor, Before: before, Limit: int(limit)})
			return httpx.MadeSince(list, in.UpdatedFrom, func(e audit.Entry) time.Time { return e.At }), err
		})
}
