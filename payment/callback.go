package payment

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"

	"stampede/payment/provider"
	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
)

const (
	// maxCallbackBytes bounds a callback: the longest of any provider is below
	// 8 KiB, and nobody has proved who he is before the whole body is read.
	maxCallbackBytes = 64 << 10
	// callbackTimeout ends the work on one callback before providers give up on
	// theirs (WeChat Pay: 5 s), so that the answer they get is the truth.
	callbackTimeout = 4 * time.Second
)

// callback takes what a provider sends on its own account, for payments and
// refunds alike: the signed content says what it is about. It answers in the
// provider's own words; only an address that names no provider gets ours.
//
// Acknowledged is what needs no repetition: taken, or taken before. A sum that
// does not fit and that the provider does not clear up when asked, a number that
// is not ours, and any failure of ours are refused, so that the provider comes
// back after a person or a restart has helped.
func (s *Service) callback(w http.ResponseWriter, r *http.Request) {
	name := chi.URLParam(r, "provider")
	p, ok := s.named[name]
	if !ok {
		httpx.WriteProblem(w, r, fault.Plain(fault.NotFound, "There is no such payment provider here."))
		return
	}
	err := s.take(w, r, name, p)
	answer, level := "taken", slog.LevelDebug
	switch {
	case err == nil:
	case errors.Is(err, provider.ErrBadSignature):
		answer, level = "bad_signature", slog.LevelWarn
	case errors.Is(err, provider.ErrUnreadable):
		answer, level = "unreadable", slog.LevelWarn
	case errors.Is(err, errMismatch), errors.Is(err, errUnknown), errors.Is(err, errForeign), errors.Is(err, errReused):
		answer, level = "refused", slog.LevelError
	default:
		answer, level = "failed", slog.LevelError
	}
	s.metrics.callbacks.WithLabelValues(name, answer).Inc()
	if err != nil {
		s.deps.Log.Log(r.Context(), level, "callback not taken", "provider", name, "answer", answer, "error", err)
	}
	reply := p.Answer(err)
	w.Header().Set("Content-Type", reply.ContentType)
	w.WriteHeader(reply.Status)
	_, _ = w.Write(reply.Body) // a provider that is gone comes back
}

// take reads a callback, has the provider verify it on the raw body, and settles
// what it tells. nil is what the provider may take for an acknowledgement.
func (s *Service) take(w http.ResponseWriter, r *http.Request, name string, p provider.Provider) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCallbackBytes))
	if err != nil {
		return errors.Join(provider.ErrUnreadable, err)
	}
	n, err := p.Parse(r.Header, body)
	if err != nil {
		return err
	}
	// A provider that hangs up has not taken its message back: the work is ended
	// by the clock alone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), callbackTimeout)
	defer cancel()
	switch {
	case n.Capture != nil:
		_, err = s.settle(ctx, name, *n.Capture, told)
	case n.Refund != nil:
		err = s.settleRefund(ctx, name, *n.Refund)
	}
	return err
}

// Where providers send what they tell on their own account. One handler takes
// both; they are two addresses because providers ask for one of each.
const (
	notifyPath       = "/api/v1/payments/{provider}/notify"
	refundNotifyPath = "/api/v1/payments/{provider}/refund-notify"
)

// callbackRoutes registers the callbacks as plain handlers, because a signature
// covers the raw body, and documents them by hand.
func (s *Service) callbackRoutes(rt *httpx.Router) {
	rt.Handle(httpx.Critical, http.MethodPost, notifyPath, s.callback)
	rt.Handle(httpx.Critical, http.MethodPost, refundNotifyPath, s.callback)
	doc := rt.API.Huma.OpenAPI()
	doc.AddOperation(describeCallback(doc, notifyPath, "payment-callback", "A payment provider tells of a payment"))
	doc.AddOperation(describeCallback(doc, refundNotifyPath, "refund-callback", "A payment provider tells of a refund"))
}

// describeCallback documents a plain handler: the body is the provider's, so huma
// cannot derive it.
func describeCallback(doc *huma.OpenAPI, path, id, summary string) *huma.Operation {
	problem := doc.Components.Schemas.Schema(reflect.TypeFor[httpx.Problem](), true, "Problem")
	own := func(description string) *huma.Response {
		return &huma.Response{Description: description, Content: map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{}}}}
	}
	return &huma.Operation{
		Method: http.MethodPost, Path: path, OperationID: id, Tags: []string{"provider"}, Summary: summary,
		Description: "For payment providers only: the signature over headers and raw body is the credential, and body and answers are as each " +
			"provider specifies them; the statuses below are the sandbox bank's. Payments and refunds are taken at either address, for the signed " +
			"content says what it is about. Whatever is not acknowledged is to be sent again; a repetition is acknowledged and changes nothing.",
		Parameters: []*huma.Param{{
			Name: "provider", In: "path", Required: true, Description: "The provider's name", Schema: &huma.Schema{Type: huma.TypeString}, Example: "sandbox",
		}},
		RequestBody: &huma.RequestBody{
			Required: true, Description: "The provider's signed message, at most 64 KiB",
			Content: map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{}}},
		},
		Responses: map[string]*huma.Response{
			"200": own("Taken, now or before"),
			"400": own("Not readable, or too large"),
			"401": own("The signature is not valid"),
			"404": {Description: "not-found: no provider has this name", Content: map[string]*huma.MediaType{httpx.ProblemContentType: {Schema: problem}}},
			"503": own("Not taken: it contradicts the books, or something failed here"),
		},
	}
}
