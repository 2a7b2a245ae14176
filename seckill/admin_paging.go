package seckill

import (
	"encoding/base64"
	"strconv"

	"stampede/platform/httpx"
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

// listPage reads one page, and one row more to know whether there is another.
func listPage[R, V any](in *httpx.PageInput, view func(*R) V, id func(*R) int64, query func(before int64, limit int32) ([]R, error)) (*bodyOf[page[V]], error) {
	before, err := readCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	rows, err := query(before, int32(in.Limit)+1)
	if err != nil {
		return nil, err
	}
	out := &bodyOf[page[V]]{page[V]{Data: make([]V, 0, len(rows))}}
	for i := range rows {
		if i == in.Limit {
			out.Body.NextCursor = writeCursor(id(&rows[i-1]))
			break
		}
		out.Body.Data = append(out.Body.Data, view(&rows[i]))
	}
	return out, nil
}

// A cursor is the last row's id, wrapped so that nobody counts on that.
func writeCursor(id int64) string {
	return base64.RawURLEncoding.EncodeToString(strconv.AppendInt(nil, id, 10))
}

// readCursor is the inverse; no cursor is the beginning of the list.
func readCursor(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, httpx.ErrCursor
	}
	id, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || id <= 0 {
		return 0, httpx.ErrCursor
	}
	return id, nil
}
