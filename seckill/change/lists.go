package change

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/edge/httpx"
	"stampede/seckill/internal/operator"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
	"stampede/seckill/plan"
)

// The operators' view of reservations. Package reservation grants them.

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
