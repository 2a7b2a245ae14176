package httpx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/fault"
	"stampede/platform/ratelimit"
)

// ProblemContentType is the media type of every error body (RFC 9457).
const ProblemContentType = "application/problem+json"

// problemBase prefixes a code to make the problem's type. A relative URI
// reference is allowed by RFC 9457 and resolves to the served documentation.
const problemBase = "/docs/problems#"

// Problem is an RFC 9457 document. Extension members stand beside the standard
// ones in the JSON object.
type Problem struct { //nolint:errname // the word of RFC 9457
	Type   string `json:"type" doc:"Where the code is explained" example:"/docs/problems#sold-out"`
	Title  string `json:"title" doc:"Short words for a person, in the language asked for with Accept-Language (en, zh)"`
	Status int    `json:"status" example:"410"`
	Code   string `json:"code" doc:"Stable, machine-readable" example:"sold-out"`
	Detail string `json:"detail,omitempty" doc:"What happened and what to do next"`
	Errors []any  `json:"errors,omitempty" doc:"Each invalid field with its location"`
	// RequestID is empty where requests have no id: on the rush, and at addresses
	// that do not exist.
	RequestID string `json:"request_id,omitempty" doc:"The X-Request-Id of this answer, to tell the operator; log lines carry it" example:"0199a1b2c3d47e8f90a1b2c3d4e5f607"`

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

// StatusOf is the HTTP status of a kind of fault.
func StatusOf(k fault.Kind) int { return statusOf[k] }

// NewProblem renders err in a language.
func NewProblem(err error, lang Language) *Problem {
	f := fault.From(err)
	p := &Problem{
		Type: problemBase + f.Code, Title: Title(f.Code, lang), Status: statusOf[f.Kind], Code: f.Code,
		Detail: f.Detail, extension: f.Fields, header: http.Header{},
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
	return p
}

// MarshalJSON writes the standard members and the extensions as one object.
func (p *Problem) MarshalJSON() ([]byte, error) {
	type plain Problem
	if len(p.extension) == 0 {
		return json.Marshal((*plain)(p))
	}
	doc := make(map[string]any, len(p.extension)+7)
	maps.Copy(doc, p.extension)
	doc["type"], doc["title"], doc["status"], doc["code"] = p.Type, p.Title, p.Status, p.Code
	if p.Detail != "" {
		doc["detail"] = p.Detail
	}
	if len(p.Errors) > 0 {
		doc["errors"] = p.Errors
	}
	if p.RequestID != "" {
		doc["request_id"] = p.RequestID
	}
	return json.Marshal(doc)
}

func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// GetStatus tells huma the status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders tells huma the headers.
func (p *Problem) GetHeaders() http.Header { return p.header }

// ContentType tells huma the media type.
func (p *Problem) ContentType(string) string { return ProblemContentType }

// WriteProblem answers a plain handler's request with err.
func WriteProblem(w http.ResponseWriter, r *http.Request, err error) {
	WriteProblemStatus(w, r, 0, err)
}

// WriteProblemStatus is WriteProblem with a status that no kind of fault has,
// such as 426, because only HTTP knows of it; 0 is the status of err's kind.
func WriteProblemStatus(w http.ResponseWriter, r *http.Request, status int, err error) {
	p := NewProblem(err, LanguageOf(r.Header.Get("Accept-Language")))
	p.RequestID = RequestID(r.Context())
	if status != 0 {
		p.Status = status
	}
	maps.Copy(w.Header(), p.header)
	w.Header().Set("Content-Type", ProblemContentType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client may be gone; there is nobody left to tell
}

// logFault writes the cause of a server-side failure once, where the answer is
// made; refusals are counted, not logged.
func logFault(ctx context.Context, log *slog.Logger, err error, operation string) {
	if f := fault.From(err); f.Kind == fault.Internal {
		log.ErrorContext(ctx, "request failed", "operation", operation, "error", err)
	}
}

// codes that huma's own checks produce, by status.
var humaCodes = map[int]string{
	http.StatusBadRequest: "bad-request", http.StatusNotFound: "not-found", http.StatusNotAcceptable: "not-acceptable",
	http.StatusRequestTimeout: "too-slow", http.StatusRequestEntityTooLarge: "too-large",
	http.StatusUnsupportedMediaType: "unsupported-media-type", http.StatusUnprocessableEntity: "invalid",
	http.StatusMethodNotAllowed: "method-not-allowed",
}

func init() {
	// huma's validation errors take the same shape as ours. These are huma's
	// documented extension points; they are process-wide by its design.
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		if ctx == nil {
			return humaProblem(English, status, msg, errs)
		}
		p := humaProblem(LanguageOf(ctx.Header("Accept-Language")), status, msg, errs)
		p.RequestID = RequestID(ctx.Context())
		return p
	}
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return humaProblem(English, status, msg, errs)
	}
}

// humaProblem turns what huma found wrong with a request into one of our problems,
// with a bounded list of what is wrong.
func humaProblem(lang Language, status int, msg string, errs []error) *Problem {
	code := humaCodes[status]
	if code == "" {
		code = "internal"
	}
	p := &Problem{Type: problemBase + code, Title: Title(code, lang), Status: status, Code: code, Detail: msg, header: http.Header{}}
	var details []*huma.ErrorDetail
	for _, err := range errs {
		if d, ok := err.(huma.ErrorDetailer); ok { // huma hands the details over unwrapped
			details = append(details, d.ErrorDetail())
		}
	}
	list, left := Quote(details)
	for _, d := range list {
		p.Errors = append(p.Errors, d)
	}
	if left > 0 {
		p.Detail += fmt.Sprintf("; errors lists the first %d of %d", maxDetails, len(details))
	}
	return p
}

// Bounds of what a refusal quotes from the request. huma repeats the value at
// fault for every error, which is the whole object when a member is unknown, so
// that the answer to a large body would be many times larger.
const (
	// maxDetails is more than a person mends before trying again.
	maxDetails = 20
	// maxQuoted shows what was sent, in characters. It bounds locations too, where
	// the client's names of unknown members stand.
	maxQuoted = 100
	// maxMessage fits the longest sentence of huma, which lists the words that a
	// field may have, in characters.
	maxMessage = 500
)

// Quote is what a refusal may say of a request's flaws: the first of them, each
// without the parts that can be of any size, and how many are left out.
func Quote(flaws []*huma.ErrorDetail) (quoted []*huma.ErrorDetail, left int) {
	for _, d := range flaws[:min(len(flaws), maxDetails)] {
		quoted = append(quoted, short(*d))
	}
	return quoted, max(0, len(flaws)-maxDetails)
}

// short returns a detail without the parts that can be of any size.
func short(d huma.ErrorDetail) *huma.ErrorDetail {
	d.Message, d.Location = cut(d.Message, maxMessage), cut(d.Location, maxQuoted)
	switch v := d.Value.(type) {
	case string:
		d.Value = cut(v, maxQuoted)
	case json.Number:
		d.Value = cut(v.String(), maxQuoted)
	case bool, float64, float32, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
	default:
		d.Value = nil
	}
	return &d
}

// cut ends a text of more than most characters with an ellipsis.
func cut(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}
