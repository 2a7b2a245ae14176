package reservation

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/base/batch"
	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/humancheck"
	"stampede/seckill/catalogue"
	"stampede/seckill/rush"
)

// Request names the item; the shopper is the token's.
type Request struct {
	ID string `path:"id" doc:"The item" example:"42"`
}

// ReserveRequest is a Request with the proof that the activity may require.
type ReserveRequest struct {
	Request
	Proof string `header:"Human-Check" maxLength:"4096" doc:"The solution of a challenge for the purpose reservation, where the activity's human check is pow"`
}

// Reservation is a shopper's own reservation.
type Reservation struct {
	ItemID     string `json:"item_id" example:"42"`
	ReservedAt string `json:"reserved_at" format:"date-time"`
	OpensAt    string `json:"opens_at" format:"date-time" doc:"When the sale opens; request a rush path shortly before"`
}

// Answer carries a Reservation.
type Answer struct{ Body Reservation }

// Routes registers the shoppers' routes for reservations. limits bound how
// often a user and an address may try.
func (s *Service) Routes(api httpx.API, limits ...httpx.Limit) {
	api.Member("reservation_closes_at", huma.Schema{
		Type: huma.TypeString, Format: "date-time", Examples: []any{"2026-11-11T11:50:00.000Z"},
		Description: "Until when you can reserve, in a no-reservation-held problem",
	})
	const path = "/api/v1/items/{id}/reservation"
	httpx.Register(api, httpx.Op{
		Method: http.MethodPost, Path: path, ID: "reserve-item", Tag: "shopper", Role: auth.Shopper, Status: http.StatusCreated, Limits: limits,
		Summary: "Reserve an item, which is the qualification to rush for it",
		NoKey:   "a shopper has one per item, which a repetition returns",
		Description: "For sessions with reservation_opens_at, until reservation_closes_at. One per shopper and item; repeating the request gives the same answer. " +
			"A reservation does not guarantee a unit: there may be more reservations than units. " +
			"If human_check is pow, solve its challenge now; it is then not required at the opening.",
		Refuses: []*fault.Error{
			errNotAsked, errFull, ErrNotOpen, ErrClosed, rush.ErrSaleEnded,
			humancheck.ErrRequired, humancheck.ErrFailed, humancheck.ErrUnavailable,
		},
	}, s.post)
	httpx.Register(api, httpx.Op{
		Method: http.MethodGet, Path: path, ID: "get-reservation", Tag: "shopper", Role: auth.Shopper,
		Summary: "Your reservation of an item",
	}, s.get)
	httpx.Register(api, httpx.Op{
		Method: http.MethodDelete, Path: path, ID: "give-up-reservation", Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary:     "Cancel your reservation, before reservation_closes_at; succeeds if there is none",
		Description: "Not once rush paths are issued, which begins two minutes before the opening: your place could then let a second shopper rush.",
		Refuses:     []*fault.Error{errNotAsked, errKept},
	}, s.remove)
}

func (s *Service) item(rawID string) (*catalogue.Item, error) {
	id, err := httpx.ParseID(rawID)
	if err != nil {
		return nil, err
	}
	item, ok := s.deps.Items.Item(id)
	if !ok {
		return nil, rush.ErrItemUnknown
	}
	return item, nil
}

func (s *Service) post(ctx context.Context, in *ReserveRequest) (*Answer, error) {
	item, err := s.item(in.ID)
	if err != nil {
		return nil, err
	}
	who := applicant{user: auth.From(ctx).UserID, from: httpx.ClientAddr(ctx), proof: in.Proof}
	h, err := s.reserve(ctx, item, who)
	code := codeHeld
	if h.new {
		code = codeReserved
	}
	s.count(code, err)
	return told(item, h, err)
}

func (s *Service) get(ctx context.Context, in *Request) (*Answer, error) {
	item, err := s.item(in.ID)
	if err != nil {
		return nil, err
	}
	h, err := s.read(ctx, item.ID, auth.From(ctx).UserID)
	return told(item, h, err)
}

func (s *Service) remove(ctx context.Context, in *Request) (*struct{}, error) {
	item, err := s.item(in.ID)
	if err != nil {
		return nil, err
	}
	err = s.giveUp(ctx, item, auth.From(ctx).UserID)
	s.count(codeGivenUp, err)
	return nil, err
}

func told(item *catalogue.Item, h held, err error) (*Answer, error) {
	if err != nil {
		return nil, err
	}
	return &Answer{Reservation{
		ItemID: strconv.FormatInt(item.ID, 10), ReservedAt: httpx.Moment(h.at), OpensAt: httpx.Moment(item.OpensAt),
	}}, nil
}

var (
	errNotAsked = fault.New(fault.Conflict, "no-reservation", fault.T("No reservation is needed", "该商品无需预约"),
		fault.T("This item needs no reservation; request a rush path shortly before the opening.",
			"该商品无需预约，请在开抢前获取抢购链接。"),
		fault.T("Request a rush path shortly before the opening.", "无需预约，请在开抢前获取抢购链接。"))
	// ErrNotOpen refuses a reservation before reservation_opens_at.
	ErrNotOpen = fault.New(fault.TooEarly, "reservation-not-open",
		fault.T("Reservations are not open yet", "预约尚未开始"),
		fault.T("Reservations for this item are not open yet; they open at reservation_opens_at.",
			"该商品的预约尚未开始，开始时间见 reservation_opens_at。"),
		fault.T("Come back at reservation_opens_at.", "请在预约开始后再来。"))
	// ErrClosed refuses a reservation after reservation_closes_at.
	ErrClosed = fault.New(fault.Gone, "reservation-closed", fault.T("Reservations are closed", "预约已结束"),
		fault.T("Reservations for this item are closed.", "该商品的预约已截止。"),
		fault.T("Look for another session of the activity.", "请关注活动的其他场次。"))
	errKept = ErrClosed.Saying(fault.T("Reservations for this item can no longer be cancelled.", "该商品的预约已不能取消。"))
	errFull = fault.New(fault.Conflict, "reservation-full", fault.T("All reservations are taken", "预约名额已满"),
		fault.T("All reservations for this item are taken; try again later, a place may become free.",
			"该商品的预约名额已满；可能有人取消，可稍后再试。"),
		fault.T("Look for another session of the activity.", "预约名额已满，请关注其他场次。"))
	errNone = fault.Plain(fault.NotFound, fault.T("You have no reservation for this item.", "您没有预约该商品。"))

	// ErrNotHeld has two texts for one code: what a shopper can still do differs.
	ErrNotHeld = fault.New(fault.Forbidden, "no-reservation-held",
		fault.T("Only for shoppers with a reservation", "您未预约，无法参与抢购"),
		fault.T("Only shoppers who reserved this item can take part, and the reservation is closed.",
			"仅限已预约的顾客参加，预约已截止。"),
		fault.T("Reserve the item while its reservations are open; afterwards, reserve for another session.", "预约开放期间请先预约该商品；已截止的请预约其他场次。"))
	errNotHeldYet = ErrNotHeld.Saying(
		fault.T("Only shoppers who reserved this item can take part; reserve it before reservation_closes_at and try "+
			"again.",
			"仅限已预约的顾客参加，请在 reservation_closes_at 之前预约后重试。"))

	// errBusy hides the cause; the log has it.
	errBusy = fault.Plain(fault.Unavailable,
		fault.T("Reservations cannot be looked up right now; try again in a moment.", "暂时无法查询预约，请稍后重试。")).After(time.Second)
)

// inWords is the shopper's error for a full queue.
func inWords(err error) error {
	if errors.Is(err, batch.ErrBusy) {
		return errBusy.Because(err)
	}
	return err
}
