package rush

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// An operator may limit how many attempts a second each instance admits to an
// item's line. The rates are one hash in Redis, item → attempts per second, so
// that an instance that starts during the sale finds them; a broadcast makes a
// change take effect immediately. They are a temporary valve and not part of the
// plan: if Redis loses them, every attempt is admitted.
const (
	admissionKey     = "seckill:admission"
	subjectAdmission = "broadcast.seckill.admission"
)

// RedisKeys are the prefixes of the package's keys.
var RedisKeys = []string{admissionKey}

// Admission is how many attempts a second each instance admits to an item's line,
// nil if there is no limit. It reads from where every instance reads, so that the
// shown rate is the rate in force.
func (r *Service) Admission(ctx context.Context, itemID int64) (perSecond *int, err error) {
	rate, err := r.deps.Redis.HGet(ctx, admissionKey, strconv.FormatInt(itemID, 10)).Int()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil //nolint:nilnil // no limit is a rate
	case err != nil:
		return nil, fmt.Errorf("seckill: read admission rate of item %d: %w", itemID, err)
	}
	return &rate, nil
}

// SetAdmission sets an item's rate on every instance: 0 admits no attempt, nil
// removes the limit.
func (r *Service) SetAdmission(ctx context.Context, itemID int64, perSecond *int) (err error) {
	field := strconv.FormatInt(itemID, 10)
	if perSecond == nil {
		err = r.deps.Redis.HDel(ctx, admissionKey, field).Err()
	} else {
		err = r.deps.Redis.HSet(ctx, admissionKey, field, *perSecond).Err()
	}
	if err != nil {
		return fmt.Errorf("seckill: store admission rate: %w", err)
	}
	r.readRates(ctx)
	if err := r.deps.Bus.Broadcast(subjectAdmission, nil); err != nil {
		// The other instances read the rates every two seconds anyway.
		r.deps.Log.WarnContext(ctx, "broadcast failed", "subject", subjectAdmission, "error", err)
	}
	return nil
}

// ForgetAdmissions deletes the rates of items that are long over, so that the
// hash does not grow with every sale.
func (r *Service) ForgetAdmissions(ctx context.Context) error {
	// The rates first: a rate is only set for a published item, so the catalogue read afterwards has
	// every living item among them.
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
		return fmt.Errorf("seckill: delete admission rates: %w", err)
	}
	return nil
}

// readRatesTimeout keeps a Redis that does not answer from delaying the
// maintenance of the lanes for longer than its interval.
const readRatesTimeout = time.Second

// readRates applies the rates in Redis. Without an answer the previous ones
// stay.
func (r *Service) readRates(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readRatesTimeout)
	defer cancel()
	// Two concurrent reads could finish in the wrong order.
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
