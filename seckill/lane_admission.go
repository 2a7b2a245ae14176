package seckill

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/audit"
	"stampede/platform/auth"
	"stampede/platform/fault"
	"stampede/platform/httpx"
	"stampede/platform/pg"
)

// An operator may bound how many attempts a second each instance lets into an
// item's line. The rates are one hash in Redis, item → attempts per second, so
// that an instance that starts during the sale finds them; a broadcast makes a
// change take effect at once. They are a valve for the moment and no part of the
// plan: a Redis that lost them lets everybody in.
const (
	admissionKey     = "seckill:admission"
	subjectAdmission = "broadcast.seckill.admission"
)

// AdmissionRequest sets an item's admission rate.
type AdmissionRequest struct {
	ID   string `path:"id" doc:"The item" example:"42"`
	Body Admission
}

// Admission is how fast an item's line may be entered.
type Admission struct {
	PerSecond int `json:"per_second" minimum:"0" maximum:"1000000" doc:"Attempts a second that each instance lets into the line; 0 lifts the bound"`
}

// AdmissionAnswer repeats what is in force.
type AdmissionAnswer struct{ Body Admission }

func (r *rush) setAdmission(ctx context.Context, in *AdmissionRequest) (*AdmissionAnswer, error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	item, ok := r.catalogue.Item(id)
	if !ok {
		return nil, fault.New(fault.NotFound, "not-found", "There is no such item on sale.")
	}
	if !item.OnSale {
		return nil, fault.New(fault.Conflict, codeForbiddenTransition, "The item's sale is over; nobody is let into its line any more.")
	}
	field := strconv.FormatInt(id, 10)
	// The log is written first: a rate that is in force without an entry would be
	// worse than an entry whose rate Redis did not take.
	err = pg.InTx(ctx, r.deps.DB, func(tx pgx.Tx) error {
		return audit.Record(ctx, tx, "item.admission", "item "+field, in.Body)
	})
	if err != nil {
		return nil, err
	}
	if in.Body.PerSecond == 0 {
		err = r.deps.Redis.HDel(ctx, admissionKey, field).Err()
	} else {
		err = r.deps.Redis.HSet(ctx, admissionKey, field, in.Body.PerSecond).Err()
	}
	if err != nil {
		return nil, fmt.Errorf("seckill: store admission rate: %w", err)
	}
	r.readRates(ctx)
	if err := r.deps.Bus.Broadcast(subjectAdmission, nil); err != nil {
		// The others read the rates every two seconds anyway.
		r.deps.Log.WarnContext(ctx, "broadcast failed", "subject", subjectAdmission, "error", err)
	}
	return &AdmissionAnswer{in.Body}, nil
}

// readRatesTimeout keeps a Redis that does not answer from holding up the care
// of the lanes for longer than its own interval.
const readRatesTimeout = time.Second

// readRates takes over the rates in force. Without an answer the last ones stay.
func (r *rush) readRates(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readRatesTimeout)
	defer cancel()
	// Two readings at once could finish in the wrong order.
	r.ratesMu.Lock()
	defer r.ratesMu.Unlock()
	stored, err := r.deps.Redis.HGetAll(ctx, admissionKey).Result()
	if err != nil {
		return // Redis's health is reported elsewhere
	}
	rates := make(map[int64]int, len(stored))
	for field, value := range stored {
		id, err := strconv.ParseInt(field, 10, 64)
		perSecond, err2 := strconv.Atoi(value)
		if err == nil && err2 == nil {
			rates[id] = perSecond
		}
	}
	r.lanes.setRates(rates)
}

func (r *rush) registerAdmission(api httpx.API) {
	httpx.Register(api, httpx.Op{
		Method: http.MethodPut, Path: "/api/v1/admin/items/{id}/admission", ID: "set-admission-rate", Tag: "operator", Role: auth.Operator,
		Summary:     "Bound how fast an item's line may be entered",
		Description: "Takes effect on every instance at once. Attempts above the rate are answered 429 too-hot; nobody who may already hold a unit is.",
		Problems: map[int]string{
			http.StatusNotFound: "not-found", http.StatusConflict: codeForbiddenTransition, http.StatusUnprocessableEntity: "invalid",
		},
	}, r.setAdmission)
}
