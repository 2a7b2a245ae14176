package httpx

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/base/fault"
)

// Flaw is one error in a request.
type Flaw = *huma.ErrorDetail

// Refusals whose status no kind of fault has, because they exist only in HTTP.
var (
	errAccept = fault.New(fault.BadRequest, "not-acceptable", fault.T("No acceptable content type", "无法提供所需的内容类型"), fault.Text{},
		fault.T("Accept application/json, or leave the header out.", "请接受 application/json，或不发送 Accept 请求头。"))
	errTooSlow = fault.New(fault.BadRequest, "too-slow", fault.T("The request took too long", "请求超时"), fault.Text{},
		fault.T("Send the request again over a better connection.", "请检查网络后重新发送请求。"))
	errMediaType = fault.New(fault.BadRequest, "unsupported-media-type", fault.T("This content type is not supported", "不支持的内容类型"),
		fault.T("The body's Content-Type is not application/json.", "请求体的 Content-Type 不是 application/json。"),
		fault.T("Send the body as JSON with Content-Type: application/json.", "请以 JSON 发送请求体，并设置 Content-Type: application/json。"))
)

var onlyHTTP = map[int]*fault.Error{
	http.StatusMethodNotAllowed: errMethod, http.StatusNotAcceptable: errAccept, http.StatusRequestTimeout: errTooSlow,
	http.StatusUnsupportedMediaType: errMediaType,
}

// humaFault is the fault of a status of huma's checks; nil if it is not a client's.
func humaFault(status int) *fault.Error {
	for _, f := range []*fault.Error{fault.ErrBadRequest, fault.ErrNotFound, fault.ErrTooLarge, fault.ErrInvalid} {
		if statusOf[f.Kind] == status {
			return f
		}
	}
	return onlyHTTP[status]
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
	f := humaFault(status)
	if f == nil {
		f, status = fault.ErrInternal, http.StatusInternalServerError
	}
	p := &Problem{Type: problemBase + f.Code, Title: f.Title[lang], Status: status, Code: f.Code, Next: f.Next[lang], header: http.Header{}}
	lang.inHeader(p.header)
	switch {
	case f.Detail != (fault.Text{}):
		p.Detail = f.Detail[lang]
		return p
	case status == http.StatusRequestEntityTooLarge && op != nil:
		p.Detail = fault.T("The body must be smaller than {most} bytes.", "请求体须小于 {most} 字节。", "most", op.MaxBodyBytes)[lang]
		return p
	case wholes[msg] != (fault.Text{}):
		p.Detail = wholes[msg][lang]
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
	if len(found) == 0 {
		p.Detail = msg
		return p
	}
	first := fault.Text{strings.TrimSuffix(p.Errors[0].Message, ".")}
	if first[Chinese] = first[English]; chinese[found[0]] != "" {
		_, name, _ := strings.Cut(p.Errors[0].Location, ".")
		first[Chinese] = strings.TrimSpace(name + " " + strings.TrimSuffix(chinese[found[0]], "。"))
	}
	switch {
	case left > 0:
		p.Detail = fault.T("{first}; errors lists the first {listed} of {all}.", "{first}；共 {all} 处，errors 列出前 {listed} 处。",
			"first", first, "listed", fault.MaxFlaws, "all", len(found))[lang]
	case len(found) > 1:
		p.Detail = fault.T("{first}; errors lists this and {more} more.", "{first}；errors 列出此处及另外 {more} 处。",
			"first", first, "more", len(found)-1)[lang]
	default:
		p.Detail = fault.T("{first}.", "{first}。", "first", first)[lang]
	}
	for i, flaw := range p.Errors {
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
	for _, d := range flaws[:min(len(flaws), fault.MaxFlaws)] {
		quoted = append(quoted, short(*d))
	}
	return quoted, max(0, len(flaws)-fault.MaxFlaws)
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
