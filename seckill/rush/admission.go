package rush

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
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

// Admission is how many attempts a second each instance lets into an item's line,
// 0 where nothing bounds them. It is read where every instance reads it, so that
// what is shown is what is in force.
func (r *Service) Admission(ctx context.Context, itemID int64) (perSecond int, err error) {
	perSecond, err = r.deps.Redis.HGet(ctx, admissionKey, strconv.FormatInt(itemID, 10)).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("seckill: read admission rate of item %d: %w", itemID, err)
	}
	return perSecond, nil
}

// SetAdmission sets an item's rate on every instance at once; 0 lifts the bound.
func (r *Service) SetAdmission(ctx context.Context, itemID int64, perSecond int) (err error) {
	field := strconv.FormatInt(itemID, 10)
	if perSecond == 0 {
		err = r.deps.Redis.HDel(ctx, admissionKey, field).Err()
	} else {
		err = r.deps.Redis.HSet(ctx, admissionKey, field, perSecond).Err()
	}
	if err != nil {
		return fmt.Errorf("seckill: store admission rate: %w", err)
	}
	r.readRates(ctx)
	if err := r.deps.Bus.Broadcast(subjectAdmission, nil); err != nil {
		// The others read the rates every two seconds anyway.
		r.deps.Log.WarnContext(ctx, "broadcast failed", "subject", subjectAdmission, "error", err)
	}
	return nil
}

// ForgetAdmissions drops the rates of items that are long over, so that the hash
// does not grow with every sale.
func (r *Service) ForgetAdmissions(ctx context.Context) error {
	// The rates first: a rate is set for an item that is published already, so the catalogue that is read
	// afterwards knows every living item among them.
	fields, err := r.deps.Redis.HKeys(ctx, admissionKey).Result()
	if err != nil {
		return fmt.Errorf("seckill: list admission rates: %w", err)
	}
	if err := r.catalogue.Refresh(ctx); err != nil {
		return err
	}
	var over []string
	for _, field := range fields {
		id, err := strconv.ParseInt(field, 10, 64)
		if _, known := r.catalogue.Item(id); err != nil || !known {
			over = append(over, field)
		}
	}
	if len(over) == 0 {
		return nil
	}
	if err := r.deps.Redis.HDel(ctx, admissionKey, over...).Err(); err != nil {
		return fmt.Errorf("seckill: forget admission rates: %w", err)
	}
	return nil
}

// readRatesTimeout keeps a Redis that does not answer from holding up the care
// of the lanes for longer than its own interval.
const readRatesTimeout = time.Second

// readRates takes over the rates in force. Without an answer the last ones stay.
func (r *Service) readRates(ctx context.Context) {
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
