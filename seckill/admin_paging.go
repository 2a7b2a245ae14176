package seckill

import "stampede/platform/edge/httpx"

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

// listPage reads one page plus one row, which tells whether there is another
// page.
func listPage[R, V any](in *httpx.PageInput, view func(*R) V, id func(*R) int64, query func(before int64, limit int32) ([]R, error)) (*httpx.PageOutput[V], error) {
	before, err := in.BeforeID()
	if err != nil {
		return nil, err
	}
	rows, err := query(before, int32(in.Ask()))
	if err != nil {
		return nil, err
	}
	return httpx.PageOf(*in, rows, func(r R) V { return view(&r) }, func(r R) string { return httpx.FormatID(id(&r)) }), nil
}
