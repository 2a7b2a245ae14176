package order

import (
	"context"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"stampede/order/details"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/qrcode"
)

func (s *Service) pickupRoutes(rt *httpx.Router) {
	const picture = "/api/v1/orders/{no}/pickup-code.png"
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: picture, ID: "get-pickup-code-image", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper,
		Summary:  "An order's pickup code as a QR picture",
		Problems: map[int]string{http.StatusNotFound: "not-found", http.StatusServiceUnavailable: "unavailable"},
	}, s.pickupPicture)
	ok := rt.API.Huma.OpenAPI().Paths[picture].Get.Responses[strconv.Itoa(http.StatusOK)]
	ok.Content = map[string]*huma.MediaType{"image/png": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}
}

type pictureOutput struct {
	CacheControl string `header:"Cache-Control"`
	ContentType  string `header:"Content-Type"`
	Body         []byte
}

var errNoCode = fault.Plain(fault.NotFound,
	fault.T("This order has no pickup code, or not any more: it has one from the payment until it is picked up.",
		"该订单没有提货码：付款后至取货前才有。"))

// pickupPicture draws the code of a paid order that is to be picked up.
func (s *Service) pickupPicture(ctx context.Context, in *orderInput) (*pictureOutput, error) {
	no, err := in.number()
	if err != nil {
		return nil, err
	}
	rows, err := s.readRows(ctx, []ids.ID{no})
	if err != nil {
		return nil, errReading(err)
	}
	if o, ok := rows[no]; !ok || o.UserID != auth.From(ctx).UserID {
		return nil, ErrNotFound
	} else if o.Status != orderevent.StatusPaid {
		return nil, errNoCode
	}
	d, _, err := details.Read(ctx, s.deps.DB, no)
	if err != nil {
		return nil, errReading(err)
	}
	if d.Code == "" {
		return nil, errNoCode
	}
	png, err := qrcode.PNG(d.Code)
	if err != nil {
		return nil, err
	}
	return &pictureOutput{CacheControl: httpx.NoStore, ContentType: "image/png", Body: png}, nil
}
