package seckill

import (
	"time"

	"stampede/platform/edge/httpx"
)

// answerByID reads the id from the path and wraps what do returns.
func answerByID[V any](rawID string, do func(id int64) (V, error)) (*bodyOf[V], error) {
	id, err := httpx.ParseID(rawID)
	if err != nil {
		return nil, err
	}
	v, err := do(id)
	if err != nil {
		return nil, err
	}
	return &bodyOf[V]{v}, nil
}

// listPage answers a page of a list whose cursor is a row's id.
func listPage[R, V any](in *httpx.ChangesInput, view func(*R) V, id func(*R) int64, changed func(*R) time.Time, query func(before int64, limit int32) ([]R, error)) (*httpx.PageOutput[V], error) {
	return httpx.PageOfChanges(*in, func(p httpx.PageInput) ([]R, error) {
		before, err := p.BeforeID()
		if err != nil {
			return nil, err
		}
		return query(before, int32(p.Ask())) //nolint:gosec // a page
	}, func(r R) time.Time { return changed(&r) }, func(r R) V { return view(&r) }, func(r R) string { return httpx.FormatID(id(&r)) })
}
