package seckill

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"stampede/platform/edge/httpx"
	"stampede/seckill/internal/seckilldb"
	"stampede/seckill/internal/wire"
)

// The operators' view of reservations. Package reservation grants them.

var listReservationProblems = map[int]string{http.StatusNotFound: "not-found", http.StatusUnprocessableEntity: "invalid"}

type listingReservations struct {
	ByID
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
		return nil, orNotFound(err, errNoItem, "read item")
	}
	return listPage(&in.ChangesInput, viewReservation, func(r *seckilldb.SeckillReservation) int64 { return r.UserID }, func(r *seckilldb.SeckillReservation) time.Time { return r.ReservedAt },
		func(after int64, limit int32) ([]seckilldb.SeckillReservation, error) {
			return q.ReservationsOf(ctx, seckilldb.ReservationsOfParams{ItemID: id, After: after, RowLimit: limit})
		})
}

// countReservations fills in the number of reservations of each item.
func (s *Service) countReservations(ctx context.Context, views []itemView) error {
	ids := make([]int64, len(views))
	for i := range views {
		ids[i] = int64(views[i].ID)
	}
	counts, err := s.reservationsOf(ctx, ids)
	if err != nil {
		return err
	}
	for i := range views {
		n := counts[ids[i]]
		views[i].Reservations = &n
	}
	return nil
}

// reservationsOf returns the number of reservations of those items that have any. It
// counts rows, because an exact counter would be a row that every shopper's request
// waits for; counting a million takes Postgres about 0.1 s.
func (s *Service) reservationsOf(ctx context.Context, items []int64) (map[int64]int64, error) {
	rows, err := seckilldb.New(s.deps.DB).CountReservations(ctx, items)
	if err != nil {
		return nil, fmt.Errorf("seckill: count reservations: %w", err)
	}
	counts := make(map[int64]int64, len(rows))
	for _, r := range rows {
		counts[r.ItemID] = r.Reservations
	}
	return counts, nil
}
