package httpx

import (
	"strconv"

	"stampede/platform/base/fault"
)

// PageInput asks a list for one page; an input embeds it. It is exported, as all
// that is embedded in an input must be for huma to look into it. What a cursor
// holds is each list's own business: the place where its order goes on.
type PageInput struct {
	Cursor string `query:"cursor" maxLength:"64" doc:"next_cursor of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Rows on a page"`
}

// ErrCursor is what a list answers to a cursor that it never gave out.
var ErrCursor = fault.Plain(fault.Invalid, "cursor is not one that a list returned; leave it out to start at the beginning.")

// BeforeID is the place of a list that goes by falling ids, whose cursor is the
// last id of the page before; 0 is the beginning.
func (in PageInput) BeforeID() (int64, error) {
	if in.Cursor == "" {
		return 0, nil
	}
	id, err := ParseID(in.Cursor)
	if err != nil {
		return 0, ErrCursor.Because(err)
	}
	return id, nil
}

// Ask is how many rows the query reads: one more than the page has, which tells
// whether there is another page.
func (in PageInput) Ask() int { return in.Limit + 1 }

// Page is one page of a list.
type Page[V any] struct {
	Data       []V    `json:"data" nullable:"false"`
	NextCursor string `json:"next_cursor" doc:"Ask for the next page with ?cursor=…; empty on the last page"`
}

// PageOutput answers with a page that no cache keeps.
type PageOutput[V any] = Output[Page[V]]

// PageOf makes a page of the up to Ask rows that were read. place is the cursor
// that goes on behind a row.
func PageOf[R, V any](in PageInput, rows []R, view func(R) V, place func(R) string) *PageOutput[V] {
	out := &PageOutput[V]{CacheControl: NoStore}
	if len(rows) > in.Limit {
		rows = rows[:in.Limit]
		out.Body.NextCursor = place(rows[in.Limit-1])
	}
	out.Body.Data = make([]V, len(rows)) // an empty list, not null
	for i, r := range rows {
		out.Body.Data[i] = view(r)
	}
	return out
}

// FormatID writes an id as ParseID reads it and answers carry it.
func FormatID(id int64) string { return strconv.FormatInt(id, 10) }
