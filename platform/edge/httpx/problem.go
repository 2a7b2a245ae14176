package httpx

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/text/language"

	"stampede/platform/base/fault"
	"stampede/platform/edge/ratelimit"
)

// ProblemContentType is the media type of every error body (RFC 9457).
const ProblemContentType = "application/problem+json"

// problemBase is the prefix of a problem's type, followed by its code. RFC 9457
// allows a relative URI reference; it resolves to the served documentation.
const problemBase = "/docs/problems#"

// Problem is an RFC 9457 document. Extension members are members of the same JSON
// object as the standard ones.
type Problem struct { //nolint:errname // RFC 9457's term
	Type      string `json:"type" doc:"Link to the explanation of the code" example:"/docs/problems#not-found"`
	Title     string `json:"title" doc:"A short title for people, in the language requested by Accept-Language (en, zh)"`
	Status    int    `json:"status" example:"404"`
	Code      string `json:"code" doc:"Stable, machine-readable" example:"not-found"`
	Detail    string `json:"detail,omitempty" doc:"What happened and what to do next, in the language of the title"`
	Next      string `json:"next,omitempty" doc:"What to do instead, in the language of the title; the rush leaves it out" example:"Check the number or id; the lists show what there is."`
	Errors    []Flaw `json:"errors,omitempty" nullable:"false" doc:"The invalid fields, at most 20, each with a sentence in the language of the title"`
	RequestID string `json:"request_id,omitempty" doc:"The X-Request-Id of this answer, to quote to the operator; log lines carry it" example:"0199a1b2c3d47e8f90a1b2c3d4e5f607"`

	extension map[string]any
	header    http.Header
}

var statusOf = map[fault.Kind]int{
	fault.Internal: http.StatusInternalServerError, fault.BadRequest: http.StatusBadRequest,
	fault.Unauthenticated: http.StatusUnauthorized, fault.Forbidden: http.StatusForbidden,
	fault.NotFound: http.StatusNotFound, fault.Conflict: http.StatusConflict, fault.Gone: http.StatusGone,
	fault.TooLarge: http.StatusRequestEntityTooLarge, fault.Invalid: http.StatusUnprocessableEntity,
	fault.TooEarly: http.StatusTooEarly, fault.TooMany: http.StatusTooManyRequests,
	fault.Unavailable: http.StatusServiceUnavailable,
}

// StatusOf returns the HTTP status of a kind of fault.
func StatusOf(k fault.Kind) int { return statusOf[k] }

// NewProblem renders err in a language. A store that is away is a 503 here too, for
// what Register does not see: plain handlers and what runs before a handler.
func NewProblem(err error, lang Language) *Problem {
	f := fault.From(away(elsewhere, err))
	p := &Problem{
		Type: problemBase + f.Code, Title: f.Title[lang], Status: statusOf[f.Kind], Code: f.Code,
		Detail: f.Detail[lang], Next: f.Next[lang], extension: f.Fields, header: http.Header{},
	}
	for _, flaw := range f.Flaws[:min(len(f.Flaws), fault.MaxFlaws)] {
		p.Errors = append(p.Errors, short(huma.ErrorDetail{Location: flaw.Location, Message: flaw.Says[lang], Value: flaw.Value}))
	}
	if f.RetryAfter > 0 {
		// Retry-After counts whole seconds; rounding down would invite the client too early.
		p.header.Set("Retry-After", strconv.FormatInt(int64((f.RetryAfter+time.Second-1)/time.Second), 10))
	}
	if refused, ok := errors.AsType[*ratelimit.Refused](err); ok {
		refused.Decision.Header(p.header)
	}
	if p.Status == http.StatusUnauthorized {
		p.header.Set("WWW-Authenticate", `Bearer realm="stampede"`)
	}
	lang.inHeader(p.header)
	return p
}

// ProblemIn renders err in the language of the request in ctx and logs its cause, for a
// handler that answers in parts: the request succeeds and one of its subjects fails.
func ProblemIn(ctx context.Context, log *slog.Logger, operation string, err error) *Problem {
	logFault(ctx, log, err, operation)
	return problemIn(ctx, err)
}

func problemIn(ctx context.Context, err error) *Problem {
	p := NewProblem(err, LanguageFrom(ctx))
	p.RequestID = RequestID(ctx)
	return p
}

// inHeader tells caches that the language of the title depends on Accept-Language.
func (lang Language) inHeader(h http.Header) {
	h.Set("Content-Language", [...]string{English: "en", Chinese: "zh"}[lang])
	h.Set("Vary", "Accept-Language")
}

// MarshalJSON writes the standard members and the extensions as one object.
func (p *Problem) MarshalJSON() ([]byte, error) {
	type plain Problem
	standard, err := json.Marshal((*plain)(p))
	if err != nil || len(p.extension) == 0 {
		return standard, err
	}
	more, err := json.Marshal(p.extension)
	return append(append(standard[:len(standard)-1], ','), more[1:]...), err // both are objects with members
}

func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// GetStatus gives huma the status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders gives huma the headers.
func (p *Problem) GetHeaders() http.Header { return p.header }

// ContentType gives huma the media type.
func (p *Problem) ContentType(string) string { return ProblemContentType }

// WriteProblem answers a plain handler's request with err.
func WriteProblem(w http.ResponseWriter, r *http.Request, err error) {
	WriteProblemStatus(w, r, 0, err)
}

// WriteProblemStatus is WriteProblem with a status that no kind of fault has, such
// as 426, because it exists only in HTTP; 0 means the status of err's kind.
func WriteProblemStatus(w http.ResponseWriter, r *http.Request, status int, err error) {
	p := NewProblem(err, LanguageOf(r.Header.Get("Accept-Language")))
	p.RequestID = RequestID(r.Context())
	if status != 0 {
		p.Status = status
	}
	p.header["Vary"] = slices.Concat(w.Header()["Vary"], p.header["Vary"]) // crossOrigin's too
	maps.Copy(w.Header(), p.header)
	w.Header().Set("Content-Type", ProblemContentType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client may have left
}

// logFault logs the cause of a server-side failure once, where the answer is made;
// refusals are counted, not logged. A request that was canceled, because its client
// left or the server stops, is not a failure, and no client waits for the answer.
func logFault(ctx context.Context, log *slog.Logger, err error, operation string) {
	switch f := fault.From(err); {
	case f.Kind != fault.Internal:
	case errors.Is(err, context.Canceled):
		log.DebugContext(ctx, "request canceled", "operation", operation, "error", err)
	case isAway(err):
		log.WarnContext(ctx, "request failed, store unreachable", "operation", operation, "error", err)
	default:
		log.ErrorContext(ctx, "request failed", "operation", operation, "error", err)
	}
}

// Language is a language of problem titles.
type Language uint8

// The languages, in the order of fault.Text.
const (
	English Language = iota
	Chinese
)

var matcher = language.NewMatcher([]language.Tag{language.English, language.Chinese})

// LanguageOf picks the best supported language for an Accept-Language header, else
// English.
func LanguageOf(accept string) Language {
	if accept == "" {
		return English
	}
	_, i := language.MatchStrings(matcher, accept)
	return Language(i)
}

// Member declares an extension member of problem documents, which faults set with
// With, so that a strict client knows it. Each module declares its members where it
// registers its routes; a member declared by two modules gets both descriptions. No
// member is required: which ones are present depends on the code.
func (api API) Member(name string, schema huma.Schema) {
	schemas := api.Huma.OpenAPI().Components.Schemas
	schemas.Schema(problemType, true, "Problem") // a document without routes does not have it yet
	properties := schemas.Map()["Problem"].Properties
	if before := properties[name]; before != nil {
		before.Description += "; " + schema.Description
		return
	}
	properties[name] = &schema
}
