package httpx

import "time"

// ChangesInput is PageInput for a list that can be narrowed to recent changes.
type ChangesInput struct {
	PageInput
	UpdatedFrom time.Time `query:"updated_from" doc:"Only what changed at this time or later, or was made then, where nothing changes; an expiry is no change. In the list's own order. A page reads a bounded number of rows: it may have fewer than its limit, even none, while there is a next_cursor" example:"2026-11-11T20:00:00+08:00"`
}

const (
	// maxRead is the most rows that one page reads: some ten milliseconds of Postgres
	// and of this process.
	maxRead = 5000
	// maxChunk is the most rows that one query of a page reads. Each reads four times
	// as many as the one before, because a search that found little is likely to go on so.
	maxChunk = 1000
	// outOfOrder is how far the rows of a list that is ordered by ids may be from the
	// order of time: ids are given before the times, in other processes.
	outOfOrder = time.Minute
)

// PageOfChanges builds a page from the rows that changed at in.UpdatedFrom or later.
// read returns the rows of a page of the list without that filter, up to Ask; changed
// says when a row changed. Walking the list and filtering here costs no index by the
// time of the change, which every change would have to write.
func PageOfChanges[R, V any](in ChangesInput, read func(PageInput) ([]R, error), changed func(R) time.Time, view func(R) V, place func(R) string) (*PageOutput[V], error) {
	out := Answer(Page[V]{Data: []V{}}) // an empty list, not null
	from := in.PageInput
	for left := maxRead; ; {
		rows, err := read(from)
		if err != nil {
			return nil, err
		}
		more := len(rows) > from.Limit
		rows = rows[:min(len(rows), from.Limit)]
		for i, r := range rows {
			from.Cursor = place(r)
			if changed(r).Before(in.UpdatedFrom) {
				continue
			}
			if out.Body.Data = append(out.Body.Data, view(r)); len(out.Body.Data) == in.Limit {
				if more || i < len(rows)-1 {
					out.Body.NextCursor = from.Cursor
				}
				return out, nil
			}
		}
		if !more {
			return out, nil
		}
		if left -= len(rows); left <= 0 {
			out.Body.NextCursor = from.Cursor
			return out, nil
		}
		from.Limit = min(4*from.Limit, maxChunk, left)
	}
}

// MomentOrNone is Moment, "" for a time that is not known.
func MomentOrNone(t *time.Time) string {
	if t == nil {
		return ""
	}
	return Moment(*t)
}

// MadeSince cuts off the rows that were made before from, of a list whose rows never
// change and whose newest are first: the changes end there.
func MadeSince[R any](rows []R, from time.Time, made func(R) time.Time) []R {
	for i, r := range rows {
		if made(r).Before(from.Add(-outOfOrder)) {
			return rows[:i]
		}
	}
	return rows
}
