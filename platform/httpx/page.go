package httpx

import "stampede/platform/fault"

// PageInput asks a list for one page; an input embeds it. It is exported, as all
// that is embedded in an input must be for huma to look into it. What a cursor
// holds is each list's own business: the place where its order goes on.
type PageInput struct {
	Cursor string `query:"cursor" maxLength:"64" doc:"next_cursor of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"Rows on a page"`
}

// ErrCursor is what a list answers to a cursor that it never gave out.
var ErrCursor = fault.New(fault.Invalid, "invalid", "cursor is not one that a list returned; leave it out to start at the beginning.")
