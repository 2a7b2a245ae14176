package httpx

import (
	"strconv"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
)

// NoStore keeps an answer out of every cache: tokens, personal data, and states of
// which an operator must not see a stale copy.
const NoStore = "no-store"

// Output is an answer that caches must not keep; Answer makes one. A handler whose
// answer has other headers, or a body of an unnamed type, for which the API's
// document would have no name, declares its output type itself.
type Output[B any] struct {
	CacheControl string `header:"Cache-Control"`
	Body         B
}

// Answer wraps a body for a handler's return.
func Answer[B any](body B) *Output[B] { return &Output[B]{CacheControl: NoStore, Body: body} }

// Answered is Answer for what a call has returned.
func Answered[B any](body B, err error) (*Output[B], error) {
	if err != nil {
		return nil, err
	}
	return Answer(body), nil
}

// File is an answer with a media type of its own, which caches must not keep.
type File struct {
	CacheControl string `header:"Cache-Control"`
	ContentType  string `header:"Content-Type"`
	Body         []byte
}

// PageInput requests one page of a list; an input embeds it. It is exported because
// huma requires that of embedded fields. Each list defines the content of its
// cursors: the position at which the next page starts.
type PageInput struct {
	Cursor string `query:"cursor" maxLength:"64" doc:"next_cursor of the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Rows on a page"`
}

// ErrCursor is the answer to a cursor that the list never returned.
var ErrCursor = fault.Plain(fault.Invalid,
	fault.T("cursor is not one that a list returned; leave it out to start at the beginning.",
		"cursor 不是列表返回的值；从头开始请留空。"))

// BeforeID is the position in a list ordered by descending ids, whose cursor is the
// last id of the previous page; 0 is the beginning.
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

// Ask is how many rows the query reads: one more than the page has, which shows
// whether there is another page.
func (in PageInput) Ask() int { return in.Limit + 1 }

// LastNumber sorts after every number.
var LastNumber = ids.ID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// BeforeNumber is the number below which a page begins, of a list whose cursor is a
// number. Numbers rise with time, so the newest are first and a page is stable.
func (in PageInput) BeforeNumber() (ids.ID, error) {
	if in.Cursor == "" {
		return LastNumber, nil
	}
	before, err := ids.Parse(in.Cursor)
	if err != nil {
		return LastNumber, ErrCursor.Because(err)
	}
	return before, nil
}

// Page is one page of a list.
type Page[V any] struct {
	Data       []V    `json:"data" nullable:"false"`
	NextCursor string `json:"next_cursor" doc:"Request the next page with ?cursor=…; empty on the last page" example:"1187"`
}

// PageOutput is an answer with a page that caches must not keep.
type PageOutput[V any] = Output[Page[V]]

// PageOf builds a page from up to Ask rows. place returns the cursor of the position
// after a row.
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

// FormatID formats an id as ParseID parses it and answers contain it.
func FormatID(id int64) string { return strconv.FormatInt(id, 10) }

// Moment formats a time as every answer has it: RFC 3339 in UTC with exactly three
// digits of a second, so that a client may compare two of them as text.
func Moment(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
