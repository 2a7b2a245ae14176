package httpx

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/base/fault"
)

// Flaw is one error in a request.
type Flaw = *huma.ErrorDetail

// humaFaults are the faults of huma's checks, by status. A status that no kind of
// fault has is given with the document, because it exists only in HTTP.
var humaFaults = map[int]*fault.Error{
	http.StatusBadRequest:            fault.Plain(fault.BadRequest, ""),
	http.StatusNotFound:              fault.Plain(fault.NotFound, ""),
	http.StatusMethodNotAllowed:      errMethod,
	http.StatusNotAcceptable:         fault.New(fault.BadRequest, "not-acceptable", fault.Titles{"No acceptable content type", "无法提供所需的内容类型"}, ""),
	http.StatusRequestTimeout:        fault.New(fault.BadRequest, "too-slow", fault.Titles{"The request took too long", "请求超时"}, ""),
	http.StatusRequestEntityTooLarge: fault.Plain(fault.TooLarge, ""),
	http.StatusUnsupportedMediaType:  fault.New(fault.BadRequest, "unsupported-media-type", fault.Titles{"This content type is not supported", "不支持的内容类型"}, ""),
	http.StatusUnprocessableEntity:   fault.Plain(fault.Invalid, ""),
}

func init() {
	// huma's refusals get the same shape as ours, through its documented extension
	// points, which are process-wide.
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		if ctx == nil {
			return humaProblem(English, nil, status, msg, errs)
		}
		p := humaProblem(LanguageOf(ctx.Header("Accept-Language")), ctx.Operation(), status, msg, errs)
		p.RequestID = RequestID(ctx.Context())
		for k := range p.header { // huma writes no headers of what its own checks find
			ctx.SetHeader(k, p.header.Get(k))
		}
		return p
	}
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return humaProblem(English, nil, status, msg, errs)
	}
}

// humaProblem turns huma's refusal of a request into a problem, with a bounded list
// of flaws. op is the route, if it is known.
//
// The schema is checked before the rules of a route: rules compare fields with each
// other and with stored data, and would have to guess the meaning of a field that is
// missing or of the wrong type. A request may therefore be refused once for its
// shape, with all flaws, and once for the rules.
func humaProblem(lang Language, op *huma.Operation, status int, msg string, errs []error) *Problem {
	if msg == humaCannotRead {
		status = http.StatusBadRequest // the client ended it, or sent malformed chunks
	}
	f := humaFaults[status]
	if f == nil {
		f, status = fault.ErrInternal, http.StatusInternalServerError
	}
	p := &Problem{Type: problemBase + f.Code, Title: f.Titles[lang], Status: status, Code: f.Code, Next: fault.NextOf(f.Code)[lang], header: http.Header{}}
	lang.inHeader(p.header)
	switch {
	case status == http.StatusInternalServerError:
		p.Detail = f.Detail
		return p
	case status == http.StatusRequestEntityTooLarge && op != nil:
		p.Detail = fmt.Sprintf("The body must be smaller than %d bytes.", op.MaxBodyBytes)
		return p
	case status == http.StatusUnsupportedMediaType:
		p.Detail = "Send the body as JSON, with Content-Type: application/json."
		return p
	case wholes[msg] != "":
		p.Detail = wholes[msg]
		return p
	}
	var found []Flaw
	chinese := map[Flaw]string{}
	for _, err := range errs {
		if d, ok := err.(huma.ErrorDetailer); ok { // huma passes the details unwrapped
			flaw, says := inOurWords(*d.ErrorDetail(), op)
			found, chinese[flaw] = append(found, flaw), says
		}
	}
	// huma iterates over maps, whose order changes from one request to the next.
	slices.SortStableFunc(found, func(a, b Flaw) int { return strings.Compare(a.Location, b.Location) })
	var left int
	p.Errors, left = Quote(found)
	switch {
	case len(found) == 0:
		p.Detail = msg
	case left > 0:
		p.Detail = fmt.Sprintf("%s; errors lists the first %d of %d.", strings.TrimSuffix(p.Errors[0].Message, "."), maxDetails, len(found))
	case len(found) > 1:
		p.Detail = fmt.Sprintf("%s; errors lists this and %d more.", strings.TrimSuffix(p.Errors[0].Message, "."), len(found)-1)
	default:
		p.Detail = p.Errors[0].Message
	}
	for i, flaw := range p.Errors { // the detail stays English, because programs log it
		if says := chinese[found[i]]; lang == Chinese && says != "" {
			flaw.Message = shorten(says, maxMessage)
		}
	}
	return p
}

// Bounds of what a refusal quotes from the request. huma repeats the invalid value
// in every error, which is the whole object when a member is unknown, so that the
// answer to a large body would be many times larger.
const (
	// maxDetails is more than a person fixes in one attempt.
	maxDetails = 20
	// maxQuoted is the length of a quote, in characters. It also bounds locations,
	// which contain the client's names of unknown members.
	maxQuoted = 100
	// maxMessage fits the longest sentence, which lists the allowed values of a
	// field, in characters.
	maxMessage = 500
)

// Quote returns the flaws that a refusal may quote: the first ones, each without
// parts of unbounded size, and the number of those left out.
func Quote(flaws []Flaw) (quoted []Flaw, left int) {
	for _, d := range flaws[:min(len(flaws), maxDetails)] {
		quoted = append(quoted, short(*d))
	}
	return quoted, max(0, len(flaws)-maxDetails)
}

// short returns a detail without parts of unbounded size.
func short(d huma.ErrorDetail) Flaw {
	d.Message, d.Location = shorten(d.Message, maxMessage), shorten(d.Location, maxQuoted)
	switch v := d.Value.(type) {
	case string:
		d.Value = shorten(v, maxQuoted)
	case json.Number: // stays a number, digit for digit
		if len(v) > maxQuoted {
			d.Value = shorten(v.String(), maxQuoted)
		}
	case bool, float64, float32, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
	default:
		d.Value = nil
	}
	return &d
}

// shorten truncates a text of more than most characters with an ellipsis.
func shorten(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}

// quotable reports whether an answer may repeat the value at a location of a
// request: browsers' error trackers and gateways store error bodies. Headers carry
// tokens, a whole body may contain anything, and the routes of logins and accounts
// take passwords and codes.
func quotable(location string, op *huma.Operation) bool {
	if op == nil || location == "body" || strings.HasPrefix(location, "header.") {
		return false
	}
	return !strings.HasPrefix(op.Path, "/api/v1/auth/") && op.Path != "/api/v1/me" && !strings.HasPrefix(op.Path, "/api/v1/me/")
}
