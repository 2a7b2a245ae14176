package seckill

import (
	"errors"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/seckill/internal/wire"
)

var (
	errNoActivity = fault.Plain(fault.NotFound, "There is no activity with this id.")
	errNoSession  = fault.Plain(fault.NotFound, "There is no session with this id.")
	errNoItem     = fault.Plain(fault.NotFound, "There is no item with this id.")
)

var errChanged = fault.New(fault.Conflict, "stale-version", fault.Titles{"This has changed since you read it", "内容已被他人修改，请刷新后重试"},
	"This has changed since you read it; read it again and repeat your edit.")

// errStale refuses an edit based on an outdated version: the sender has not
// seen the state that the edit would overwrite.
func errStale(have int32) error {
	return errChanged.Saying(fmt.Sprintf("This has changed since you read it; read it again and repeat your edit with version %d.", have)).
		With("version", have)
}

// orNotFound turns "no row" into the fault that names what is missing.
func orNotFound(err error, missing *fault.Error, operation string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return missing
	default:
		return fmt.Errorf("seckill: %s: %w", operation, err)
	}
}

// flaws collects a request's errors, field by field, in the shape that huma
// uses for its own validation.
type flaws []*huma.ErrorDetail

// add records a flaw of a field unless ok is true.
func (f *flaws) add(ok bool, location string, value any, format string, args ...any) {
	if ok {
		return
	}
	switch v := value.(type) { // as the request wrote it
	case time.Time:
		value = v.Format(time.RFC3339Nano)
	case wire.ID:
		value = v.String()
	}
	*f = append(*f, &huma.ErrorDetail{Location: location, Message: fmt.Sprintf(format, args...), Value: value})
}

// err is the 422 that lists the flaws; nil when there are none.
func (f flaws) err() error {
	if len(f) == 0 {
		return nil
	}
	list, left := httpx.Quote(f)
	detail := "Some fields are not valid; each is listed with its rule."
	if left > 0 {
		detail = fmt.Sprintf("Some fields are not valid; the first %d of %d are listed with their rules.", len(list), len(f))
	}
	return fault.Plain(fault.Invalid, detail).With("errors", list)
}
