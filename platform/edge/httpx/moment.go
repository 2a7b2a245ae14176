package httpx

import "time"

// Moment formats a time as every answer has it: RFC 3339 in UTC with exactly three
// digits of a second, so that a client may compare two of them as text.
func Moment(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
