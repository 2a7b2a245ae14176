package reservation

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/seckill/catalogue"
)

// Request names the item; the shopper is the token's.
type Request struct {
	ID string `path:"id" doc:"The item" example:"42"`
}

// ReserveRequest is a Request with the proof that the activity may ask for.
type ReserveRequest struct {
	Request
	Proof string `header:"Human-Check" maxLength:"4096" doc:"The solution of a challenge for the purpose reservation, where the activity's human check is pow"`
}

// Reservation is what a shopper is told of theirs.
type Reservation struct {
	ItemID     string `json:"item_id" example:"42"`
	ReservedAt string `json:"reserved_at" format:"date-time"`
	OpensAt    string `json:"opens_at" format:"date-time" doc:"When the sale opens; ask for a rush path shortly before"`
}

// Answer carries a Reservation.
type Answer struct{ Body Reservation }

// Routes registers what shoppers do with reservations. How often a user and an
// address may try is for limits.
func (s *Service) Routes(api httpx.API, limits ...httpx.Limit) {
	api.Member("reservation_closes_at", huma.Schema{
		Type: huma.TypeString, Format: "date-time", Examples: []any{"2026-11-11T11:50:00.000Z"},
		Description: "Until when you can reserve, of no-reservation-held",
	})
	const path = "/api/v1/items/{id}/reservation"
	httpx.Register(api, httpx.Op{
		Method: http.MethodPost, Path: path, ID: "reserve-item", Tag: "shopper", Role: auth.Shopper, Status: http.StatusCreated, Limits: limits,
		Summary: "Reserve an item, which is the qualification to rush for it",
		Description: "For sessions with reservation_opens_at, until reservation_closes_at. One per shopper and item; asking again gives the same answer. " +
			"A reservation is no unit: more shoppers may hold one than there are units. " +
			"Where human_check is pow, solve its challenge now; nothing is asked for at the opening then.",
		Problems: map[int]string{
			http.StatusNotFound: "not-found", http.StatusConflict: "no-reservation, reservation-full", http.StatusTooEarly: "reservation-not-open",
			http.StatusGone: "reservation-closed, ended", http.StatusForbidden: "human-check-required, human-check-failed",
			http.StatusServiceUnavailable: "unavailable, human-check-unavailable",
		},
	}, s.post)
	httpx.Register(api, httpx.Op{
		Method: http.MethodGet, Path: path, ID: "get-reservation", Tag: "shopper", Role: auth.Shopper,
		Summary: "One's own reservation of an item", Problems: map[int]string{http.StatusNotFound: "not-found"},
	}, s.get)
	httpx.Register(api, httpx.Op{
		Method: http.MethodDelete, Path: path, ID: "give-up-reservation", Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary: "Give one's reservation back, before reservation_closes_at; that there is none is no mistake",
		Problems: map[int]string{
			http.StatusNotFound: "not-found", http.StatusConflict: "no-reservation", http.StatusGone: "reservation-closed",
		},
	}, s.remove)
}

// item finds what a path names.
func (s *Service) item(rawID string) (*catalogue.Item, error) {
	id, err := httpx.ParseID(rawID)
	if err != nil {
		return nil, err
	}
	item, ok := s.deps.Items.Item(id)
	if !ok {
		return nil, errItemUnknown
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

// told is the answer about a reservation.
func told(item *catalogue.Item, h held, err error) (*Answer, error) {
	if err != nil {
		return nil, err
	}
	return &Answer{Reservation{
		ItemID: strconv.FormatInt(item.ID, 10), ReservedAt: httpx.Moment(h.at), OpensAt: httpx.Moment(item.OpensAt),
	}}, nil
}
