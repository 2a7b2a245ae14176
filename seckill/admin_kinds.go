package seckill

import (
	"context"
	"net/http"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

// Activities, sessions and items share the same few kinds of routes: list,
// read, create, change, delete. The shared part is here; admin.go registers the
// rest.

// Problems that several routes may answer with.
var (
	readProblems = map[int]string{http.StatusNotFound: "not-found"}
	// editProblems are those of every edit of an activity, see actEdit.
	editProblems  = map[int]string{http.StatusNotFound: "not-found", http.StatusConflict: "not-editable, frozen"}
	patchProblems = map[int]string{http.StatusNotFound: "not-found", http.StatusConflict: "not-editable, frozen, stale-version"}
	// backupProblems: fenced while the item is on sale and being loaded.
	backupProblems = map[int]string{http.StatusNotFound: "not-found", http.StatusConflict: "forbidden-transition, units-not-free", http.StatusServiceUnavailable: "fenced, unknown"}
	moveProblems   = map[int]string{http.StatusNotFound: "not-found", http.StatusConflict: "forbidden-transition, frozen"}
)

// Inputs and outputs of the routes. A POST that creates something carries a key,
// so that a repeated request does not create it twice.
type (
	// ByID is the id in a path. It is exported because huma only inspects
	// exported embedded fields.
	ByID struct {
		ID string `path:"id" doc:"A decimal id"`
	}
	bodyOf[T any]   struct{ Body T }
	noBody          struct{}
	creating[T any] struct {
		IdempotencyKey
		Body T
	}
	editing[T any] struct {
		ByID
		Body T
	}
	making[T any] struct {
		ByID
		IdempotencyKey
		Body T
	}
)

// createRoute registers POST base.
func createRoute[D, V any](api httpx.API, base, what, summary string, problems map[int]string, do func(context.Context, string, D) (V, error)) {
	httpx.Register(api, writeOp(http.MethodPost, base, "create-"+what, summary, http.StatusCreated, problems),
		func(ctx context.Context, in *creating[D]) (*bodyOf[V], error) {
			v, err := do(ctx, in.Key, in.Body)
			if err != nil {
				return nil, err
			}
			return &bodyOf[V]{v}, nil
		})
}

// makeRoute registers a POST that creates something from an existing row.
func makeRoute[D, V any](api httpx.API, op httpx.Op, do func(context.Context, string, int64, D) (V, error)) {
	httpx.Register(api, op, func(ctx context.Context, in *making[D]) (*bodyOf[V], error) {
		return answerByID(in.ID, func(id int64) (V, error) { return do(ctx, in.Key, id, in.Body) })
	})
}

// rowRoutes registers GET, PATCH and DELETE base/{id}; late says what can still be
// corrected.
func rowRoutes[P, V any](api httpx.API, base, what, late string, get func(context.Context, int64) (V, error),
	edit func(context.Context, int64, P) (V, error), remove func(context.Context, int64) error,
) {
	httpx.Register(api, readOp(base+"/{id}", "admin-get-"+what, "One "+what+" with its contents", readProblems),
		func(ctx context.Context, in *ByID) (*bodyOf[V], error) {
			return answerByID(in.ID, func(id int64) (V, error) { return get(ctx, id) })
		})
	change := writeOp(http.MethodPatch, base+"/{id}", "edit-"+what, "Change the named fields of a draft or scheduled "+what+", or correct a running one", http.StatusOK, patchProblems)
	change.Description = "Fields that are left out or null stay unchanged. `version` is the version that GET returned; it increases only when something changed. " + late
	httpx.Register(api, change,
		func(ctx context.Context, in *editing[P]) (*bodyOf[V], error) {
			return answerByID(in.ID, func(id int64) (V, error) { return edit(ctx, id, in.Body) })
		})
	httpx.Register(api, writeOp(http.MethodDelete, base+"/{id}", "delete-"+what, "Delete a draft or scheduled "+what, http.StatusNoContent, editProblems),
		func(ctx context.Context, in *ByID) (*noBody, error) {
			id, err := httpx.ParseID(in.ID)
			if err != nil {
				return nil, err
			}
			return nil, remove(ctx, id)
		})
}

// readOp describes a GET, which every operator may use.
func readOp(path, id, summary string, problems map[int]string) httpx.Op {
	return httpx.Op{Method: http.MethodGet, Path: path, ID: id, Summary: summary, Tag: "operator", Role: auth.Viewer, Problems: problems, Away: awayRead}
}

// What an operator reads while Postgres is unavailable. A change may have been
// committed although its answer was lost, so repeating the request is the way to be
// sure.
var (
	awayRead = fault.T("The sale's plan cannot be read right now; selling continues without it. Try again in a moment.",
		"暂时无法读取活动计划，抢购不受影响；请稍后重试。")
	awayChange = fault.T("The sale's plan cannot be reached right now, so this change may not be in force; repeat the request until it succeeds. "+
		"Until then open items continue to sell unchanged, and intake closes automatically when too many orders wait to be written.",
		"暂时无法访问活动计划，本次修改可能未生效，请重试直至成功。"+
			"在此之前，已开抢的商品照常出售；待写入的订单过多时会自动停止受理。")
)

// maxWriteBytes fits an activity with a thousand items, the largest request
// that an operator sends.
const maxWriteBytes = 4 << 20

// writeOp describes a request that changes something, which viewers may not
// send.
func writeOp(method, path, id, summary string, status int, problems map[int]string) httpx.Op {
	return httpx.Op{
		Method: method, Path: path, ID: id, Summary: summary, Tag: "operator", Role: auth.Operator, Status: status,
		Problems: problems, MaxBodyBytes: maxWriteBytes, Away: awayChange,
	}
}

// optional returns a pointer's target, or the fallback for nil: the value that
// a PATCH leaves unchanged.
func optional[T any](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}
