package seckill

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/redis/go-redis/v9"

	"stampede/platform/auth"
	"stampede/platform/httpx"
)

// registerAdmissionRead registers the route that shows an item's admission rate;
// the one that sets it stands with the lanes.
func (s *Service) registerAdmissionRead(api httpx.API) {
	httpx.Register(api, httpx.Op{
		Method: http.MethodGet, Path: adminBase + "/items/{id}/admission", ID: "read-admission-rate", Tag: "operator", Role: auth.Viewer,
		Summary: "How fast an item's line may be entered on each instance", Problems: readProblems,
	}, func(ctx context.Context, in *ByID) (*bodyOf[Admission], error) {
		return answerByID(in.ID, func(id int64) (Admission, error) { return s.admission(ctx, id) })
	})
}

// admission reads the rate where every instance reads it, so that what is shown
// is what is in force.
func (s *Service) admission(ctx context.Context, id int64) (Admission, error) {
	if _, err := s.readItem(ctx, id); err != nil {
		return Admission{}, err
	}
	perSecond, err := s.deps.Redis.HGet(ctx, admissionKey, strconv.FormatInt(id, 10)).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return Admission{}, fmt.Errorf("seckill: read admission rate of item %d: %w", id, err)
	}
	return Admission{PerSecond: perSecond}, nil
}

// forgetAdmissions drops the rates of items that are long over, so that the
// hash does not grow with every sale.
func (s *Service) forgetAdmissions(ctx context.Context) error {
	// The rates first: a rate is set for an item that is published already, so the catalogue that is read
	// afterwards knows every living item among them.
	fields, err := s.deps.Redis.HKeys(ctx, admissionKey).Result()
	if err != nil {
		return fmt.Errorf("seckill: list admission rates: %w", err)
	}
	if err := s.Catalogue.Refresh(ctx); err != nil {
		return err
	}
	var over []string
	for _, field := range fields {
		id, err := strconv.ParseInt(field, 10, 64)
		if _, known := s.Catalogue.Item(id); err != nil || !known {
			over = append(over, field)
		}
	}
	if len(over) == 0 {
		return nil
	}
	if err := s.deps.Redis.HDel(ctx, admissionKey, over...).Err(); err != nil {
		return fmt.Errorf("seckill: forget admission rates: %w", err)
	}
	return nil
}
