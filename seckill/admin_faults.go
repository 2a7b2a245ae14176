package seckill

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/seckill/internal/wire"
)

var (
	errNoActivity = fault.Plain(fault.NotFound, fault.T("There is no activity with this id.", "没有该编号的活动。"))
	errNoSession  = fault.Plain(fault.NotFound, fault.T("There is no session with this id.", "没有该编号的场次。"))
	errNoItem     = fault.Plain(fault.NotFound, fault.T("There is no item with this id.", "没有该编号的商品。"))
)

// errStale refuses an edit based on an outdated version: the sender has not
// seen the state that the edit would overwrite.
func errStale(have int32) error {
	return fault.ErrStale.Saying(
		fault.T("This has changed since you read it; read it again and repeat your edit with version {version}.",
			"内容在您查看后已被修改，请按版本 {version} 刷新后重新修改。", "version", have)).
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

// flaws collects what is wrong with a request, field by field.
type flaws fault.Flaws

// add records a flaw of a field unless ok is true.
func (f *flaws) add(ok bool, location string, value any, says fault.Text) {
	switch v := value.(type) { // as the request wrote it
	case time.Time:
		value = v.Format(time.RFC3339Nano)
	case wire.ID:
		value = v.String()
	}
	(*fault.Flaws)(f).Add(ok, location, value, says)
}

// err is the 422 that lists the flaws; nil when there are none.
func (f flaws) err() error { return fault.Flaws(f).Err() }
