package desk

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"stampede/order/actions"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/base/plaintext"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/idempotency"
)

const (
	// parallel is how many orders of a list are done at a time. Their transactions are
	// short, so a callback waits for a connection no longer than for another callback.
	parallel = 4
	// maxListBytes is a thousand rows with every member at its longest.
	maxListBytes = 512 << 10
)

// actionList is what is to be done with which orders.
type actionList struct {
	Action string      `json:"action" enum:"cancel,refund,complete,ship,note"`
	Reason string      `json:"reason,omitempty" maxLength:"500" doc:"Why; operators read it. Required for cancel and refund" example:"The shopper asked for it by phone."`
	Note   string      `json:"note,omitempty" maxLength:"500" doc:"Of note: what operators read of the orders"`
	Units  string      `json:"units,omitempty" enum:"return,write_off" doc:"Of refund: what becomes of the units, as for a single order"`
	Orders []actionRow `json:"orders" minItems:"1" maxItems:"1000" nullable:"false"`
}

// actionRow is one order of a list.
type actionRow struct {
	OrderNo    string            `json:"order_no" doc:"32 hex digits" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	Amount     *orderevent.Money `json:"amount,omitempty" doc:"Of refund, in the order's currency; left out: all that is left. 0 is refused"`
	Carrier    string            `json:"carrier,omitempty" maxLength:"60" doc:"Of ship, and of complete for an order that was sent" example:"SF Express"`
	TrackingNo string            `json:"tracking_no,omitempty" maxLength:"64" example:"SF1234567890"`
}

// shipment is how the order was sent, nil if the row does not say.
func (r *actionRow) shipment() *Parcel {
	if r.Carrier == "" {
		return nil
	}
	return &Parcel{Carrier: r.Carrier, TrackingNo: r.TrackingNo}
}

// actionLine is one line of the answer: an order's, or the last one with the sums.
type actionLine struct {
	OrderNo  string         `json:"order_no,omitempty" doc:"As in the request; left out of the last line"`
	OK       bool           `json:"ok" doc:"It was done; of the last line: everything was"`
	Status   string         `json:"status,omitempty" doc:"The order's, now"`
	RefundNo *ids.ID        `json:"refund_no,omitempty"`
	Refund   string         `json:"refund_status,omitempty" enum:"awaiting_approval,requested,succeeded,failed,replaced,rejected,settled_by_hand,charged_back" doc:"awaiting_approval: a second operator has to decide"`
	Problem  *httpx.Problem `json:"problem,omitempty" doc:"Why it was not done, and what to do instead"`
	Done     int            `json:"done,omitempty" doc:"Orders that were done; in the last line"`
	Failed   int            `json:"failed,omitempty" doc:"Orders that were not; in the last line"`
}

type listInput struct {
	idempotency.Header
	Body actionList
}

const listPath = "/api/v1/admin/orders/actions"

// jsonLines is the media type of one JSON document a line.
const jsonLines = "application/jsonl"

func (s *Service) listRoute(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: listPath, ID: "act-on-orders", Tag: "operator", Role: auth.Operator, Scope: auth.OrdersWrite, Load: httpx.Costly, MaxBodyBytes: maxListBytes,
		Summary: "Cancel, refund, complete, send or note on up to 1000 orders", Audit: "order.*",
		Description: "The answer begins at once and has a line of JSON for each order as it ends, done or with its problem, and a last line without order_no that counts both. " +
			"If it breaks off, send the request again with the same Idempotency-Key: what was done is not done again. Refunds with an `amount` need the key. The limit for refunds (`--refund-approval-above`) applies to each order.",
	}, s.actOnList)
	api := rt.API.Huma.OpenAPI()
	api.Paths[listPath].Post.Responses[strconv.Itoa(http.StatusOK)] = &huma.Response{
		Description: "One document a line",
		Content:     map[string]*huma.MediaType{jsonLines: {Schema: api.Components.Schemas.Schema(reflect.TypeFor[actionLine](), true, "ActionLine")}},
	}
}

// check trims the reason and refuses a list that cannot be meant as it is.
func (l *actionList) check() error {
	var flaws fault.Flaws
	l.Reason, l.Note = plaintext.Clean(l.Reason), plaintext.Clean(l.Note)
	flaws.Add(l.Reason != "" || l.Action != actions.Cancel && l.Action != actions.Refund, "body.reason", nil,
		fault.T("Say why: {action} needs a reason.", "请填写原因：{action} 需要原因。", "action", l.Action))
	flaws.Add((l.Note != "") == (l.Action == actions.Note), "body.note", nil,
		fault.T("The action note needs a note, the others take none.", "仅 note 操作须填写备注，其他操作不填。"))
	seen := make(map[string]bool, len(l.Orders))
	for i := range l.Orders {
		r := &l.Orders[i]
		at := fmt.Sprintf("body.orders[%d].", i)
		flaws.Add(!seen[r.OrderNo], at+"order_no", nil, fault.T("This order is in the list twice.", "该订单在列表中重复。"))
		seen[r.OrderNo] = true
		flaws.Add((r.Carrier == "") == (r.TrackingNo == "") && (l.Action != actions.Ship || r.Carrier != ""), at+"tracking_no", nil,
			fault.T("A parcel has a carrier and a tracking number.", "包裹须有快递公司和单号。"))
		flaws.Add(r.Carrier == "" || l.Action == actions.Ship || l.Action == actions.Complete, at+"carrier", nil,
			fault.T("Only ship and complete take a carrier.", "仅 ship 和 complete 操作可填快递公司。"))
		flaws.Add(r.Amount == nil || l.Action == actions.Refund, at+"amount", nil,
			fault.T("Only refund takes an amount.", "仅 refund 操作可填金额。"))
	}
	return flaws.Err()
}

// actOnList is POST admin/orders/actions.
func (s *Service) actOnList(_ context.Context, in *listInput) (*huma.StreamResponse, error) {
	if err := in.Body.check(); err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) { //nolint:contextcheck // hctx has it
		hctx.SetHeader("Content-Type", jsonLines)
		hctx.SetHeader("Cache-Control", httpx.NoStore)
		w := hctx.BodyWriter()
		var mu sync.Mutex
		write := func(l *actionLine) {
			_ = json.NewEncoder(w).Encode(l) // a client that has left ends ctx
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
		}
		ctx := hctx.Context()
		last := actionLine{}
		var g errgroup.Group
		g.SetLimit(parallel)
		for i := range in.Body.Orders {
			if ctx.Err() != nil {
				break
			}
			g.Go(func() error {
				l := s.lineOf(ctx, in, &in.Body.Orders[i])
				mu.Lock()
				defer mu.Unlock()
				if l.OK {
					last.Done++
				} else {
					last.Failed++
				}
				write(&l)
				return nil
			})
		}
		_ = g.Wait() // each order's error is in its line
		last.OK = last.Done == len(in.Body.Orders)
		write(&last)
	}}, nil
}

// lineOf acts on one order and describes the outcome.
func (s *Service) lineOf(ctx context.Context, in *listInput, r *actionRow) actionLine {
	status, asked, err := s.do(ctx, in.Key, &in.Body, r)
	l := actionLine{OrderNo: r.OrderNo, OK: err == nil, Status: status}
	if err != nil {
		l.Problem = httpx.ProblemIn(ctx, s.deps.Log, "act-on-orders", err)
	}
	if asked != nil {
		l.RefundNo, l.Refund = &asked.RefundNo, asked.Status
	}
	return l
}
