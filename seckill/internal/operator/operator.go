// Package operator is what the operators' routes have in common: who may use them, what
// they answer while Postgres is away, and their pages.
package operator

import (
	"net/http"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

// Base is the path of every route.
const Base = "/api/v1/admin"

type (
	// ByID is the id in a path. It is exported because huma only inspects
	// exported embedded fields.
	ByID struct {
		ID string `path:"id" doc:"A decimal id"`
	}
	// Body is an answer without headers.
	Body[T any] struct{ Body T }
)

// Read describes a GET, which every operator may use.
func Read(path, id, summary string, refuses ...*fault.Error) httpx.Op {
	return httpx.Op{Method: http.MethodGet, Path: path, ID: id, Summary: summary, Tag: "operator", Role: auth.Viewer, Scope: auth.PlanRead, Refuses: refuses, Away: AwayRead}
}

// What an operator reads while Postgres is unavailable. A change may have been
// committed although its answer was lost, so repeating the request is the way to be
// sure.
var (
	AwayRead = fault.T("The sale's plan cannot be read right now; selling continues without it. Try again in a moment.",
		"暂时无法读取活动计划，抢购不受影响；请稍后重试。")
	awayChange = fault.T("The sale's plan cannot be reached right now, so this change may not be in force; repeat the request until it succeeds. "+
		"Until then open items continue to sell unchanged, and intake closes automatically when too many orders wait to be written.",
		"暂时无法访问活动计划，本次修改可能未生效，请重试直至成功。"+
			"在此之前，已开抢的商品照常出售；待写入的订单过多时会自动停止受理。")
)

// maxWriteBytes fits an activity with a thousand items, the largest request
// that an operator sends.
const maxWriteBytes = 4 << 20

// Write describes a request that changes something, which viewers may not
// send; audit is its action in the audit log.
func Write(method, path, id, audit, summary string, status int, refuses ...*fault.Error) httpx.Op {
	return httpx.Op{
		Method: method, Path: path, ID: id, Audit: audit, Summary: summary, Tag: "operator", Role: auth.Operator, Scope: auth.PlanWrite, Status: status,
		Refuses: refuses, MaxBodyBytes: maxWriteBytes, Away: awayChange,
	}
}

// Answer reads the id from the path and wraps what do returns.
func Answer[V any](rawID string, do func(id int64) (V, error)) (*Body[V], error) {
	id, err := httpx.ParseID(rawID)
	if err != nil {
		return nil, err
	}
	v, err := do(id)
	if err != nil {
		return nil, err
	}
	return &Body[V]{v}, nil
}

// Page answers a page of a list whose cursor is a row's id.
func Page[R, V any](in *httpx.ChangesInput, view func(*R) V, id func(*R) int64, changed func(*R) time.Time,
	query func(before int64, limit int32) ([]R, error),
) (*httpx.PageOutput[V], error) {
	return httpx.PageOfChanges(*in, func(p httpx.PageInput) ([]R, error) {
		before, err := p.BeforeID()
		if err != nil {
			return nil, err
		}
		return query(before, int32(p.Ask())) //nolint:gosec // a page
	}, func(r R) time.Time { return changed(&r) }, func(r R) V { return view(&r) }, func(r R) string { return httpx.FormatID(id(&r)) })
}
