package dispute

import (
	"context"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"stampede/order/dispute/internal/disputedb"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/base/plaintext"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/idempotency"
)

// Routes registers the routes of shoppers and operators.
func (s *Service) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/orders/{no}/disputes", ID: "open-dispute", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Status: http.StatusCreated,
		Summary:     "Dispute an order that you have paid",
		Description: "One at a time. The shop answers and closes it, with a refund or without; follow it with GET.",
		Refuses:     []*fault.Error{errNotPaid, errAlready, errTooMany},
	}, s.openRoute)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/orders/{no}/disputes", ID: "get-disputes", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper,
		Summary: "The disputes of your order, the oldest first",
	}, s.ofOrder)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/disputes/{no}/replies", ID: "reply-to-dispute", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Status: http.StatusCreated,
		Summary: "Write to the shop about your dispute", Refuses: []*fault.Error{errClosed, errTooMany},
	}, s.replyRoute)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/disputes", ID: "admin-list-disputes", Tag: "operator", Role: auth.Viewer, Scope: auth.OrdersRead, Load: httpx.Costly,
		Summary:     "Disputes, newest first",
		Description: "`open` ones wait for the shop, since `waiting_from`; after two days the alarm `dispute-unanswered` is raised.",
	}, s.list)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/disputes/{no}", ID: "admin-get-dispute", Tag: "operator", Role: auth.Viewer, Scope: auth.OrdersRead,
		Summary: "A dispute with all that was written",
	}, s.get)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/disputes/{no}/answers", ID: "admin-answer-dispute", Tag: "operator", Role: auth.Operator, Scope: auth.OrdersWrite, Status: http.StatusCreated,
		Summary: "Answer a dispute", Audit: "dispute.answer", Refuses: []*fault.Error{errClosed},
	}, s.answerRoute)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/disputes/{no}/close", ID: "admin-close-dispute", Tag: "operator", Role: auth.Operator, Scope: auth.OrdersWrite,
		Summary: "Close a dispute, with a refund or without", Audit: "dispute.close", NoKey: httpx.SetsState,
		Description: "The refund is requested as any other: it may need a second operator's approval, and its state is shown with the order's payments. Repeating the " +
			"request makes no second refund.",
		Refuses: append([]*fault.Error{errClosed}, s.deps.Refuses...),
	}, s.closeRoute)
}

type orderInput struct {
	No string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
}

type disputeInput struct {
	No string `path:"no" doc:"Dispute number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f62"`
}

type openInput struct {
	No string `path:"no" doc:"Order number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	idempotency.Header
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"What is wrong, in the shopper's words" example:"收到的鞋码不对"`
	} `nameHint:"DisputeRequest"`
}

func (s *Service) openRoute(ctx context.Context, in *openInput) (*httpx.Output[Dispute], error) {
	no, err := ids.Parse(in.No)
	if err != nil || no.Bucket() != ids.Bucket(auth.From(ctx).UserID) {
		return nil, errNoOrder.Because(err)
	}
	d, err := s.open(ctx, in.Key, no, in.Body.Reason)
	if err != nil {
		return nil, away(err)
	}
	return httpx.Answer(view(d, nil)), nil
}

type disputes struct {
	Data []Dispute `json:"data" nullable:"false"`
}

func (s *Service) ofOrder(ctx context.Context, in *orderInput) (*httpx.Output[disputes], error) {
	user := auth.From(ctx).UserID
	no, err := ids.Parse(in.No)
	if err != nil || no.Bucket() != ids.Bucket(user) {
		return nil, errNoOrder.Because(err)
	}
	q := disputedb.New(s.deps.DB)
	rows, err := q.DisputesOfOrder(ctx, no)
	if err != nil {
		return nil, away(err)
	}
	nos := make([]ids.ID, len(rows))
	for i, d := range rows {
		if d.UserID != user {
			return nil, errNoOrder
		}
		nos[i] = d.DisputeNo
	}
	texts, err := q.TextsOf(ctx, nos)
	if err != nil {
		return nil, away(err)
	}
	out := disputes{Data: make([]Dispute, len(rows))} // an empty list, not null
	for i, d := range rows {
		out.Data[i] = view(d, texts)
	}
	return httpx.Answer(out), nil
}

type textInput struct {
	No string `path:"no" doc:"Dispute number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f62"`
	idempotency.Header
	Body struct {
		Text string `json:"text" minLength:"1" maxLength:"500" example:"Which size did you receive?"`
	} `nameHint:"DisputeWriting"`
}

func (s *Service) replyRoute(ctx context.Context, in *textInput) (*httpx.Output[Dispute], error) {
	return shown(ctx, s, in.No, view, func(no ids.ID) (row, error) { return s.reply(ctx, in.Key, no, in.Body.Text) })
}

// shown changes or reads the dispute that a path names and returns all of it, in one of
// the two views.
func shown[V any](ctx context.Context, s *Service, number string, view func(row, []disputedb.OrdersDisputeText) V,
	do func(no ids.ID) (row, error),
) (*httpx.Output[V], error) {
	no, err := ids.Parse(number)
	if err != nil {
		return nil, errNotFound.Because(err)
	}
	d, err := do(no)
	if err != nil {
		return nil, away(err)
	}
	texts, err := disputedb.New(s.deps.DB).TextsOf(ctx, []ids.ID{d.DisputeNo})
	if err != nil {
		return nil, away(err)
	}
	return httpx.Answer(view(d, texts)), nil
}

type listInput struct {
	Status string `query:"status" enum:"open,answered,closed" doc:"Only in this state"`
	httpx.ChangesInput
}

func (s *Service) list(ctx context.Context, in *listInput) (*httpx.PageOutput[AdminDispute], error) {
	return httpx.PageOfChanges(in.ChangesInput, func(p httpx.PageInput) ([]row, error) {
		before, err := p.BeforeNumber()
		if err != nil {
			return nil, err
		}
		rows, err := disputedb.New(s.deps.DB).ListDisputes(ctx, disputedb.ListDisputesParams{Before: before, Status: in.Status, AtMost: int32(p.Ask())}) //nolint:gosec // a page
		return rows, away(err)
	}, func(d row) time.Time { return d.UpdatedAt }, func(d row) AdminDispute { return adminView(d, nil) }, func(d row) string { return d.DisputeNo.String() })
}

func (s *Service) get(ctx context.Context, in *disputeInput) (*httpx.Output[AdminDispute], error) {
	return shown(ctx, s, in.No, adminView, func(no ids.ID) (row, error) { return s.read(ctx, no) })
}

func (s *Service) answerRoute(ctx context.Context, in *textInput) (*httpx.Output[AdminDispute], error) {
	return shown(ctx, s, in.No, adminView, func(no ids.ID) (row, error) { return s.answer(ctx, in.Key, no, in.Body.Text) })
}

type closeInput struct {
	No   string `path:"no" doc:"Dispute number, 32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f62"`
	Body struct {
		Reason string         `json:"reason" minLength:"1" maxLength:"500" doc:"The last word, which the shopper reads" example:"It is as ordered."`
		Refund *disputeRefund `json:"refund,omitempty" doc:"Left out: without a refund"`
	} `nameHint:"DisputeClosing"`
}

type disputeRefund struct {
	Amount *orderevent.Money `json:"amount,omitempty" doc:"In the order's currency; left out: all that is left. 0 is refused"`
	Units  string            `json:"units,omitempty" enum:"return,write_off" doc:"What becomes of the units when all is refunded; left out: as for any refund"`
}

func (s *Service) closeRoute(ctx context.Context, in *closeInput) (*httpx.Output[AdminDispute], error) {
	return shown(ctx, s, in.No, adminView, func(no ids.ID) (row, error) { return s.end(ctx, no, in.Body.Reason, in.Body.Refund) })
}

// away is the answer to a request whose query failed.
func away(err error) error { return httpx.Unreachable(fault.T("Disputes", "售后"), err) }

// textRunes is the longest text of either side: a few paragraphs.
const textRunes = 500

var errText = fault.Plain(fault.Invalid,
	fault.T("The text must have 1 to 500 characters, one of them visible, and no control characters but line breaks.",
		"请输入 1 至 500 个字，须包含可见文字，除换行外不能含有控制字符。"))

// legible cleans the text of a member of the body and refuses one that is too long or cannot be read.
func legible(member, s string) (string, error) {
	s = plaintext.Clean(strings.ReplaceAll(s, "\r\n", "\n"))
	if utf8.RuneCountInString(s) > textRunes || !plaintext.Legible(s, true) {
		return "", errText.At("body."+member, fault.Text{"Write 1 to 500 characters.", "请输入 1 至 500 个字，且须包含可见文字。"})
	}
	return s, nil
}
