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
	// maxCallbackBytes bounds a callback: the longest of any provider is below 8
	// KiB, and no sender is authenticated before the whole body is read.
	maxCallbackBytes = 64 << 10
	// callbackTimeout ends the work on one callback before the provider's own
	// timeout (WeChat Pay: 5 s), so that the answer it gets is the outcome.
	callbackTimeout = 4 * time.Second
)

// callbacks take what providers report.
type callbacks struct {
	*gateway
	books  *books
	forged forgeries
}

// callback handles a provider's callbacks, for payments and refunds alike: the
// signed content says which. It answers in the provider's format; only a path
// with an unknown provider name gets ours.
//
// A callback is acknowledged if it needs no repetition: processed now or before.
// It is refused, so that the provider sends it again after a person or a restart
// has fixed the cause, if the amount differs and a query to the provider does
// not settle it, if the number is not ours, and on any failure on our side.
func (cb *callbacks) callback(w http.ResponseWriter, r *http.Request) {
	name := chi.URLParam(r, "provider")
	p, ok := cb.named[name]
	if !ok {
		httpx.WriteProblem(w, r, fault.Plain(fault.NotFound,
			fault.T("There is no such payment provider here.", "没有该支付渠道。")))
		return
	}
	err := cb.take(w, r, name, p)
	answer, level := "taken", slog.LevelDebug
	switch {
	case err == nil:
	case errors.Is(err, provider.ErrBadSignature):
		answer, level = "bad_signature", cb.forgedLevel(r, name)
	case errors.Is(err, provider.ErrUnreadable):
		answer, level = "unreadable", cb.forgedLevel(r, name)
	case errors.Is(err, provider.ErrMismatch), errors.Is(err, provider.ErrUnknown), errors.Is(err, provider.ErrForeign), errors.Is(err, provider.ErrReused):
		answer, level = "refused", slog.LevelError
	default:
		answer, level = "failed", slog.LevelError
	}
	cb.metrics.callbacks.WithLabelValues(name, answer).Inc()
	if err != nil {
		cb.deps.Log.Log(r.Context(), level, "callback not accepted", "provider", name, "answer", answer, "error", err)
	}
	reply := p.Answer(err)
	w.Header().Set("Content-Type", reply.ContentType)
	w.WriteHeader(reply.Status)
	_, _ = w.Write(reply.Body) // a provider that disconnected sends it again
}

// forgedLevel counts a callback that anyone can send and returns the level of its
// log line. The metric counts all.
func (cb *callbacks) forgedLevel(r *http.Request, name string) slog.Level {
	if cb.forged.note(name, httpx.ClientAddr(r.Context()), time.Now()) {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// take reads a callback, has the provider verify it on the raw body, and settles
// its content. On nil the provider may be sent an acknowledgement.
func (cb *callbacks) take(w http.ResponseWriter, r *http.Request, name string, p provider.Provider) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCallbackBytes))
	if err != nil {
		return errors.Join(provider.ErrUnreadable, err)
	}
	n, err := p.Parse(r.Header, body)
	if err != nil {
		return err
	}
	// A provider that disconnects has not withdrawn its message: only the timeout
	// ends the work.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), callbackTimeout)
	defer cancel()
	switch {
	case n.Capture != nil:
		_, err = cb.books.settle(ctx, name, *n.Capture, told)
	case n.Refund != nil:
		err = cb.books.settleRefund(ctx, name, *n.Refund, told)
	case n.Chargeback != nil:
		err = cb.books.chargedBack(ctx, name, *n.Chargeback)
	}
	return err
}

// routes registers the callbacks as plain handlers, because a signature
// covers the raw body, and documents them manually.
func (cb *callbacks) routes(rt *httpx.Router) {
	rt.Handle(httpx.Critical, http.MethodPost, notifyPath, cb.callback)
	rt.Handle(httpx.Critical, http.MethodPost, refundNotifyPath, cb.callback)
	doc := rt.API.Huma.OpenAPI()
	doc.AddOperation(describeCallback(doc, notifyPath, "payment-callback", "Payment provider callback about a payment"))
	doc.AddOperation(describeCallback(doc, refundNotifyPath, "refund-callback", "Payment provider callback about a refund"))
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
			"provider specifies them; the statuses below are the sandbox bank's. Either address accepts payments and refunds, because the signed " +
			"content says what it is about. A callback that is not acknowledged is to be sent again; a repetition is acknowledged and changes nothing.",
		Parameters: []*huma.Param{{
			Name: "provider", In: "path", Required: true, Description: "The provider's name", Schema: &huma.Schema{Type: huma.TypeString}, Example: "sandbox",
		}},
		RequestBody: &huma.RequestBody{
			Required: true, Description: "The provider's signed message, at most 64 KiB",
			Content: map[string]*huma.MediaType{"*/*": {Schema: &huma.Schema{}}},
		},
		Responses: map[string]*huma.Response{
			"200": own("Accepted, now or before"),
			"400": own("Malformed, or too large"),
			"401": own("The signature is not valid"),
			"404": {Description: "not-found: no provider has this name", Content: map[string]*huma.MediaType{httpx.ProblemContentType: {Schema: problem}}},
			"503": own("Not accepted: it contradicts the books, or the server failed"),
		},
	}
}
