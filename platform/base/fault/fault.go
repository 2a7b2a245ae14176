// Package fault gives every error that reaches a person a kind, a stable code,
// titles, a sentence, and what to do instead. It is mapped to HTTP once, in platform/edge/httpx.
package fault

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Kind classifies an error by the answer that the caller gets.
type Kind uint8

// The kinds, each with the HTTP status that platform/edge/httpx gives it.
const (
	Internal        Kind = iota // 500
	BadRequest                  // 400
	Unauthenticated             // 401
	Forbidden                   // 403
	NotFound                    // 404
	Conflict                    // 409
	Gone                        // 410
	TooLarge                    // 413
	Invalid                     // 422
	TooEarly                    // 425
	TooMany                     // 429
	Unavailable                 // 503
)

// Error is an error with an answer for the caller. It is immutable: Saying, With, At,
// After and Because return copies, so a package keeps its errors in variables and
// compares them with errors.Is.
type Error struct {
	Kind   Kind
	Code   string // stable, kebab-case, part of the API: "not-found"
	Title  Text   // a few words that a person reads for the code
	Detail Text   // a sentence about the one case
	Next   Text   // what to do instead; the same for the code everywhere
	// RetryAfter is how long the caller should wait before retrying; 0 means
	// unspecified.
	RetryAfter time.Duration
	// Fields are extension members of the problem document, e.g. order_no.
	Fields map[string]any
	// Flaws are what is wrong with members of the request.
	Flaws Flaws

	cause error
}

// New declares an error of a kind with its own code and all of its words. It panics if the
// code is declared already: another case of it is a copy with Saying. Keep the result in a
// package variable: Codes must list the code before the first request.
func New(kind Kind, code string, title, detail, next Text) *Error {
	return declare(&Error{Kind: kind, Code: code, Title: title, Detail: detail, Next: next})
}

// Plain returns an error with its kind's default code, such as "not-found". It
// panics for a kind that is too general to have one.
func Plain(kind Kind, detail Text) *Error {
	p := plain[kind]
	if p == nil {
		panic(fmt.Sprintf("fault: kind %d has no plain code", kind))
	}
	return p.Saying(detail)
}

func (e *Error) Error() string {
	if e.cause != nil {
		return e.Code + ": " + e.Detail[0] + ": " + e.cause.Error()
	}
	return e.Code + ": " + e.Detail[0]
}

// Unwrap returns the cause given with Because.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an Error of the same code, so that copies made
// by With and After still equal the variable they came from.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Saying returns a copy with a different sentence.
func (e *Error) Saying(detail Text) *Error {
	c := *e
	c.Detail = detail
	return &c
}

// With returns a copy with one more extension member.
func (e *Error) With(key string, value any) *Error {
	c := *e
	c.Fields = maps.Clone(e.Fields)
	if c.Fields == nil {
		c.Fields = make(map[string]any, 1)
	}
	c.Fields[key] = value
	return &c
}

// At returns a copy with one more flaw.
func (e *Error) At(location string, says Text) *Error {
	c := *e
	c.Flaws = append(slices.Clip(e.Flaws), Flaw{Location: location, Says: says})
	return &c
}

// After returns a copy that tells the caller when to retry.
func (e *Error) After(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// Because returns a copy with a cause for the log; the caller never sees it.
func (e *Error) Because(err error) *Error {
	c := *e
	c.cause = err
	return &c
}

// From returns the Error inside err, or an Internal one that hides err's text
// from the caller and keeps it as the cause. From(nil) is nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return ErrInternal.Because(err)
}
