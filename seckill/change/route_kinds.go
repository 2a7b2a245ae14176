package change

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/idempotency"
	"stampede/platform/store/bus"
	"stampede/seckill/internal/operator"
	"stampede/seckill/internal/wire"
	"stampede/seckill/plan"
)

// Activities, sessions and items share the same few kinds of routes.

// Refusals of several routes.
var (
	// editRefusals are those of every edit of an activity, see plan.ActEdit; not-found is an
	// activity or session that the body names.
	editRefusals  = []*fault.Error{fault.ErrNotFound, plan.ErrNotEditable, plan.ErrFrozen}
	patchRefusals = []*fault.Error{plan.ErrNotEditable, plan.ErrFrozen, fault.ErrStale}
	// backupRefusals: fenced while the item is on sale and being loaded.
	backupRefusals = []*fault.Error{fault.ErrTransition, errNotFree, inventory.ErrFenced, bus.ErrUnknown}
	moveRefusals   = []*fault.Error{fault.ErrTransition, plan.ErrFrozen}
)

// Inputs of the routes. A POST that creates something carries a key, so that a
// repeated request does not create it twice.
type (
	creating[D any] struct {
		idempotency.Header
		Body D
	}
	editing[D any] struct {
		operator.ByID
		Body D
	}
	making[D any] struct {
		operator.ByID
		idempotency.Header
		Body D
	}
)

// inChange answers with what do makes of a row in the transaction of a change.
func inChange[V any](ctx context.Context, s *Service, rawID string, do func(context.Context, *change, int64) (V, error)) (*operator.Body[V], error) {
	return operator.Answer(rawID, func(id int64) (out V, err error) {
		err = s.transact(ctx, func(ctx context.Context, c *change) (err error) {
			out, err = do(ctx, c, id)
			return err
		})
		return out, err
	})
}

// create registers POST base, which works once per key.
func create[D, V any](s *Service, api httpx.API, base, what, summary string, refuses []*fault.Error, do func(context.Context, *change, D) (V, error)) {
	op := operator.Write(http.MethodPost, base, "create-"+what, what+".create", summary, http.StatusCreated, refuses...)
	httpx.Register(api, op, func(ctx context.Context, in *creating[D]) (*operator.Body[V], error) {
		out := new(operator.Body[V])
		err := s.transact(ctx, func(ctx context.Context, c *change) (err error) {
			out.Body, err = idempotency.Once(ctx, c.tx, in.Key, op.Audit, in.Body, func() (V, error) { return do(ctx, c, in.Body) })
			return err
		})
		if err != nil {
			return nil, err
		}
		return out, nil
	})
}

// createFrom registers a POST that works on a row once per key: it makes a new one of it,
// or states a difference, which a repetition would add up.
func createFrom[D, V any](s *Service, api httpx.API, op httpx.Op, do func(context.Context, *change, int64, D) (V, error)) {
	httpx.Register(api, op, func(ctx context.Context, in *making[D]) (*operator.Body[V], error) {
		return inChange(ctx, s, in.ID, func(ctx context.Context, c *change, id int64) (V, error) {
			request := struct {
				ID   wire.ID
				Body D
			}{wire.ID(id), in.Body}
			return idempotency.Once(ctx, c.tx, in.Key, op.Audit, request, func() (V, error) { return do(ctx, c, id, in.Body) })
		})
	})
}

// edit registers a request that changes a row.
func edit[D, V any](s *Service, api httpx.API, op httpx.Op, do func(context.Context, *change, int64, D) (V, error)) {
	httpx.Register(api, op, func(ctx context.Context, in *editing[D]) (*operator.Body[V], error) {
		return inChange(ctx, s, in.ID, func(ctx context.Context, c *change, id int64) (V, error) { return do(ctx, c, id, in.Body) })
	})
}

// post registers a request without a body that changes a row.
func post[V any](s *Service, api httpx.API, op httpx.Op, do func(context.Context, *change, int64) (V, error)) {
	httpx.Register(api, op, func(ctx context.Context, in *operator.ByID) (*operator.Body[V], error) {
		return inChange(ctx, s, in.ID, do)
	})
}

// read registers a request without a body.
func read[V any](api httpx.API, op httpx.Op, get func(context.Context, int64) (V, error)) {
	httpx.Register(api, op, func(ctx context.Context, in *operator.ByID) (*operator.Body[V], error) {
		return operator.Answer(in.ID, func(id int64) (V, error) { return get(ctx, id) })
	})
}

// rowRoutes registers GET, PATCH and DELETE base/{id}; late says what can still be
// corrected.
func rowRoutes[P, V any](s *Service, api httpx.API, base, what, late string, get func(context.Context, *pgxpool.Pool, int64) (V, error),
	patch func(context.Context, *change, int64, P) (V, error), remove func(context.Context, *change, int64) error,
) {
	read(api, operator.Read(base+"/{id}", "admin-get-"+what, "One "+what+" with its contents"),
		func(ctx context.Context, id int64) (V, error) { return get(ctx, s.deps.DB, id) })
	op := operator.Write(http.MethodPatch, base+"/{id}", "edit-"+what, what+".edit", "Change the named fields of a draft or scheduled "+what+", or correct a running one",
		http.StatusOK, patchRefusals...)
	op.Description = "Fields that are left out or null stay unchanged. `version` is the version that GET returned; it increases only when " +
		"something changed. " + late
	edit(s, api, op, patch)
	op = operator.Write(http.MethodDelete, base+"/{id}", "delete-"+what, what+".delete", "Delete a draft or scheduled "+what, http.StatusNoContent, editRefusals...)
	httpx.Register(api, op, func(ctx context.Context, in *operator.ByID) (*struct{}, error) {
		id, err := httpx.ParseID(in.ID)
		if err != nil {
			return nil, err
		}
		return nil, s.transact(ctx, func(ctx context.Context, c *change) error { return remove(ctx, c, id) })
	})
}
