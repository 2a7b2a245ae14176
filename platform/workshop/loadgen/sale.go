package loadgen

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"stampede/platform/watch/preflight"
)

// Sale describes a small sale to plan through the operator's API.
type Sale struct {
	Name     string
	Title    string
	ImageURL string // empty without a picture
	Stock    int
	OpensAt  time.Time
	Reserve  bool                    // only for shoppers who have reserved, from now on until the opening
	Drafted  func(item string) error // called before the sale is published; may be nil
	Open     time.Duration           // how long it stays open
	PayAfter time.Duration           // the payment window, at least 10 s; longer where a way to pay of the shop needs it
}

// Planned contains the ids of a planned sale.
type Planned struct {
	ActivityID string
	SessionID  string
	ItemID     string
	Warnings   []preflight.Line // what the server found when it published the sale
}

// The prices of a planned sale, in fen: a typical discount.
const (
	listPriceFen = 899_900
	salePriceFen = 9_900
)

// timeToChoose is how long a winner has to begin to pay by the slowest of the shop's
// ways, each of which needs some of the payment window for itself.
const timeToChoose = time.Minute

// planSKU marks the item of a planned sale.
const planSKU = "demo"

// Price is an amount in minor units.
type Price struct {
	Amount   int    `json:"amount"`
	Currency string `json:"currency"`
}

// Prices are the list and the sale price of a planned sale.
func Prices() (list, sale Price) {
	return Price{listPriceFen, "CNY"}, Price{salePriceFen, "CNY"}
}

// PlanSale creates and publishes an activity with one session and one item.
func PlanSale(ctx context.Context, baseURL, operatorToken string, s Sale) (Planned, error) {
	c := newClient(baseURL, 1)
	defer c.http.CloseIdleConnections()
	var ways struct {
		Methods []struct {
			LeastSeconds int `json:"least_seconds"`
		} `json:"methods"`
	}
	if err := c.call(ctx, http.MethodGet, "/api/v1/payment-methods", "", nil, &ways); err != nil {
		return Planned{}, fmt.Errorf("read the ways to pay: %w", err)
	}
	for _, w := range ways.Methods {
		s.PayAfter = max(s.PayAfter, time.Duration(w.LeastSeconds)*time.Second+timeToChoose)
	}
	type object = map[string]any
	listPrice, salePrice := Prices()
	closes := s.OpensAt.Add(s.Open)
	session := object{
		"name": s.OpensAt.Format("15:04:05"), "opens_at": s.OpensAt, "closes_at": closes,
		"items": []object{{
			"sku": planSKU, "title": s.Title, "list_price": listPrice, "sale_price": salePrice, "stock": s.Stock, "image_url": s.ImageURL,
		}},
	}
	if s.Reserve {
		session["reservation_opens_at"], session["reservation_closes_at"] = time.Now(), s.OpensAt
	}
	draft := object{
		"name": s.Name, "starts_at": s.OpensAt, "ends_at": closes, "payment_window_seconds": int(s.PayAfter / time.Second),
		"sessions": []object{session},
	}
	var made struct {
		ID       string `json:"id"`
		Sessions []struct {
			ID    string `json:"id"`
			Items []struct {
				ID string `json:"id"`
			} `json:"items"`
		} `json:"sessions"`
	}
	if err := c.call(ctx, http.MethodPost, "/api/v1/admin/activities", operatorToken, draft, &made); err != nil {
		return Planned{}, fmt.Errorf("plan a sale: %w", err)
	}
	if len(made.Sessions) != 1 || len(made.Sessions[0].Items) != 1 {
		return Planned{}, fmt.Errorf("plan a sale: the server's answer lacks the session or an item")
	}
	if s.Drafted != nil {
		if err := s.Drafted(made.Sessions[0].Items[0].ID); err != nil {
			return Planned{}, err
		}
	}
	var published struct {
		Preflight struct {
			Lines []preflight.Line `json:"lines"`
		} `json:"preflight"`
	}
	if err := c.call(ctx, http.MethodPost, "/api/v1/admin/activities/"+made.ID+"/publish", operatorToken, nil, &published); err != nil {
		return Planned{}, fmt.Errorf("publish the sale: %w", err)
	}
	return Planned{
		ActivityID: made.ID, SessionID: made.Sessions[0].ID, ItemID: made.Sessions[0].Items[0].ID, Warnings: published.Preflight.Lines,
	}, nil
}
