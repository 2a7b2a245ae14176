package loadgen

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// OpenSale is a sale that PlanSale planned and that is not over.
type OpenSale struct {
	Planned
	Name     string
	Stock    int
	OpensAt  time.Time
	ClosesAt time.Time
}

// operatorActivity is the part of the operator's view of an activity that the
// tool reads.
type operatorActivity struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	EndsAt   time.Time `json:"ends_at"`
	Sessions []struct {
		ID       string    `json:"id"`
		OpensAt  time.Time `json:"opens_at"`
		ClosesAt time.Time `json:"closes_at"`
		Items    []struct {
			ID    string `json:"id"`
			SKU   string `json:"sku"`
			Title string `json:"title"`
			Stock int    `json:"stock"`
		} `json:"items"`
	} `json:"sessions"`
}

// OpenSales lists the one-item sales with that title and a wanted name that are
// not over. It costs one request for each hundred scheduled or running
// activities, and one for each wanted activity.
func OpenSales(ctx context.Context, baseURL, operatorToken, title string, wanted func(name string) bool) ([]OpenSale, error) {
	c := newClient(baseURL, 1)
	defer c.http.CloseIdleConnections()
	var open []OpenSale
	for _, status := range []string{"scheduled", "running"} {
		for cursor, more := "", true; more; more = cursor != "" {
			var page struct {
				Data       []operatorActivity `json:"data"`
				NextCursor string             `json:"next_cursor"`
			}
			query := url.Values{"status": {status}, "limit": {"100"}}
			if cursor != "" {
				query.Set("cursor", cursor)
			}
			if err := c.call(ctx, http.MethodGet, "/api/v1/admin/activities?"+query.Encode(), operatorToken, nil, &page); err != nil {
				return nil, fmt.Errorf("list the sales: %w", err)
			}
			cursor = page.NextCursor
			for _, a := range page.Data {
				if !wanted(a.Name) || a.EndsAt.Before(time.Now()) {
					continue
				}
				var whole operatorActivity
				if err := c.call(ctx, http.MethodGet, "/api/v1/admin/activities/"+a.ID, operatorToken, nil, &whole); err != nil {
					return nil, fmt.Errorf("read sale %q: %w", a.Name, err)
				}
				if sale, ok := whole.sale(title); ok {
					open = append(open, sale)
				}
			}
		}
	}
	return open, nil
}

// sale converts an activity of the form that PlanSale creates: one session with
// one item.
func (a *operatorActivity) sale(title string) (OpenSale, bool) {
	if len(a.Sessions) != 1 || len(a.Sessions[0].Items) != 1 {
		return OpenSale{}, false
	}
	s := a.Sessions[0]
	item := s.Items[0]
	return OpenSale{
		Planned: Planned{ActivityID: a.ID, SessionID: s.ID, ItemID: item.ID, ItemIDs: []string{item.ID}},
		Name:    a.Name, Stock: item.Stock, OpensAt: s.OpensAt, ClosesAt: s.ClosesAt,
	}, item.SKU == planSKU && item.Title == title
}

// WithdrawSale deletes a sale that is not open yet, and terminates one that is
// open or opens within the minute: its orders stay payable.
func WithdrawSale(ctx context.Context, baseURL, operatorToken string, sale OpenSale) error {
	c := newClient(baseURL, 1)
	defer c.http.CloseIdleConnections()
	target := "/api/v1/admin/activities/" + sale.ActivityID
	if c.call(ctx, http.MethodDelete, target, operatorToken, nil, nil) == nil {
		return nil
	}
	if err := c.call(ctx, http.MethodPost, target+"/terminate", operatorToken, nil, nil); err != nil {
		return fmt.Errorf("withdraw sale %q: %w", sale.Name, err)
	}
	return nil
}
