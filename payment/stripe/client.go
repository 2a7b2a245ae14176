package stripe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	api "github.com/stripe/stripe-go/v84"

	"stampede/payment/internal/company"
	"stampede/payment/provider"
	"stampede/platform/base/ids"
	"stampede/platform/edge/outbound"
)

// Card is the method: a Checkout page for cards and wallets. Methods that confirm after
// days, such as bank debits, are not offered: an order waits for minutes.
const Card provider.Method = "card"

// The names of our numbers in Stripe's metadata.
const (
	MetaPayment = "payment_no"
	MetaRefund  = "refund_no"
)

const (
	// minWindow is Stripe's shortest life of a session, and the time in which the request arrives.
	minWindow = 30*time.Minute + 15*time.Second
	// maxWindow is below Stripe's longest, 24 h after the creation.
	maxWindow = 23 * time.Hour
	// maxTitleRunes is the bound of a product's name.
	maxTitleRunes = 250
	// page is how many objects one request lists, the most that Stripe gives.
	page = 100
	// searchPages bounds the search for a session whose creation was not answered: 2000
	// sessions, within the time that a payment's call has.
	searchPages = 20
	// searchSlack is how far Stripe's clock may be behind ours.
	searchSlack = 5 * time.Minute
)

// Client is Stripe as a payment provider. Safe for concurrent use.
type Client struct {
	*outbound.Client
	cfg Config
	api *api.Client
}

var _ provider.Provider = (*Client)(nil)

// New returns the provider. It makes no call.
func New(cfg Config) *Client {
	c := &Client{cfg: cfg, Client: company.Line("stripe", cfg.Backoff, cfg.Metrics)}
	c.api = api.NewClient(cfg.Key, api.WithBackends(api.NewBackendsWithConfig(&api.BackendConfig{
		HTTPClient:      &http.Client{Transport: line{c.Client, cfg.URL}}, //nolint:forbidigo // its transport is platform/edge/outbound
		EnableTelemetry: new(false), MaxNetworkRetries: new(int64(0)),     // ours retries
		LeveledLogger: &api.LeveledLogger{Level: api.LevelNull}, // errors are returned, and logged once
	})))
	return c
}

// Profile implements provider.Provider.
func (c *Client) Profile() provider.Profile {
	return provider.Profile{Name: "stripe", Merchant: c.cfg.Account, Methods: []provider.Method{Card}, MinWindow: minWindow}
}

// merchant is the account that an object belongs to. Only objects of connected accounts
// name theirs; an object of the other mode moves no money of ours.
func (c *Client) merchant(live bool, account string) string {
	account = cmp.Or(account, c.cfg.Account)
	if live != c.cfg.live() {
		account += map[bool]string{true: " (live mode)", false: " (test mode)"}[live]
	}
	return account
}

// Create implements provider.Provider.
func (c *Client) Create(ctx context.Context, ch provider.Charge) (provider.Handoff, error) {
	units, err := Units(ch.Amount, ch.Currency)
	if err != nil {
		return provider.Handoff{}, fmt.Errorf("stripe: create: %w", err)
	}
	no := ch.PaymentNo.String()
	title := []rune(ch.Title)
	back := new(cmp.Or(ch.ReturnURL, home(ch.NotifyURL)))
	// A repetition under the key must be equal, so that nothing here depends on the time of the call.
	expires := ch.ExpiresAt
	if latest := ch.PaymentNo.Time().Add(maxWindow); expires.After(latest) {
		expires = latest
	}
	ask := &api.CheckoutSessionCreateParams{
		Mode: new(string(api.CheckoutSessionModePayment)), ClientReferenceID: &no, Metadata: map[string]string{MetaPayment: no},
		PaymentMethodTypes: []*string{new(string(Card))}, ExpiresAt: new(expires.Unix()), SuccessURL: back, CancelURL: back,
		AdaptivePricing:   &api.CheckoutSessionCreateAdaptivePricingParams{Enabled: new(false)}, // the shopper pays what was charged
		PaymentIntentData: &api.CheckoutSessionCreatePaymentIntentDataParams{Metadata: map[string]string{MetaPayment: no}},
		LineItems: []*api.CheckoutSessionCreateLineItemParams{{Quantity: new(int64(1)), PriceData: &api.CheckoutSessionCreateLineItemPriceDataParams{
			Currency: new(strings.ToLower(ch.Currency)), UnitAmount: &units,
			ProductData: &api.CheckoutSessionCreateLineItemPriceDataProductDataParams{Name: new(string(title[:min(len(title), maxTitleRunes)]))},
		}}},
	}
	ask.SetIdempotencyKey(no)
	s, err := c.api.V1CheckoutSessions.Create(ctx, ask)
	switch {
	case err != nil:
		return provider.Handoff{}, fmt.Errorf("stripe: create: %w", said(err))
	case s.ClientReferenceID != no || s.ID == "":
		return provider.Handoff{}, errors.New("stripe: create: the reply is about another payment")
	case s.Status != api.CheckoutSessionStatusOpen:
		return provider.Handoff{}, fmt.Errorf("stripe: create: the session is %s: %w", s.Status, provider.ErrClosed)
	case s.URL == "":
		return provider.Handoff{}, errors.New("stripe: create: the session has no page")
	}
	return provider.Handoff{Ref: s.ID, URL: s.URL}, nil
}

// home is the page of the host in an address.
func home(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Scheme + "://" + u.Host + "/"
}

// Query implements provider.Provider.
func (c *Client) Query(ctx context.Context, p provider.Payment) (provider.Status, error) {
	s, err := c.session(ctx, p)
	if err != nil {
		return provider.Status{}, fmt.Errorf("stripe: query: %w", err)
	}
	if s == nil {
		return provider.Status{State: provider.Missing}, nil
	}
	return c.status(s)
}

// status reads a session whose payment intent is expanded.
func (c *Client) status(s *api.CheckoutSession) (provider.Status, error) {
	switch {
	case s.PaymentStatus == api.CheckoutSessionPaymentStatusPaid:
		capture, err := c.capture(s, c.merchant(s.Livemode, ""), charged(s.PaymentIntent))
		return provider.Status{State: provider.Captured, Capture: capture}, err
	case s.Status == api.CheckoutSessionStatusExpired:
		return provider.Status{State: provider.Closed}, nil
	default: // also one that is complete, whose money is under way
		return provider.Status{State: provider.Open}, nil
	}
}

// charged is when the money of a payment intent moved.
func charged(p *api.PaymentIntent) time.Time {
	if p == nil || p.LatestCharge == nil || p.LatestCharge.Created == 0 {
		return time.Time{}
	}
	return time.Unix(p.LatestCharge.Created, 0)
}

// capture is the money of a session that was paid.
func (c *Client) capture(s *api.CheckoutSession, merchant string, at time.Time) (provider.Capture, error) {
	no, err := ids.Parse(s.ClientReferenceID)
	if err == nil && (s.PaymentIntent == nil || s.PaymentIntent.ID == "" || at.IsZero()) {
		err = errors.New("a capture without transaction or time")
	}
	amount := int64(0)
	if err == nil {
		amount, err = Minor(s.AmountTotal, currency(s.Currency))
	}
	if err != nil {
		return provider.Capture{}, fmt.Errorf("stripe: session %s: %w", s.ID, err)
	}
	return provider.Capture{
		Merchant: merchant, PaymentNo: no, Transaction: s.PaymentIntent.ID, Amount: amount, Currency: currency(s.Currency), At: at,
	}, nil
}

func currency(c api.Currency) string { return strings.ToUpper(string(c)) }

// expanded is what status needs beside the session.
const expanded = "payment_intent.latest_charge"

// session returns a payment's session, or nil if there is none.
func (c *Client) session(ctx context.Context, p provider.Payment) (*api.CheckoutSession, error) {
	if p.Ref == "" {
		return c.search(ctx, p.No)
	}
	ask := new(api.CheckoutSessionRetrieveParams)
	ask.AddExpand(expanded)
	s, err := c.api.V1CheckoutSessions.Retrieve(ctx, p.Ref, ask)
	if err != nil {
		return nil, said(err) // also if it is missing: Stripe gave us this name, so that the key must be another account's
	}
	if s.ClientReferenceID != p.No.String() {
		return nil, errors.New("the session is another payment's")
	}
	return s, nil
}

// search looks for a session whose creation was not answered among those that are no
// older than the payment. Stripe lists them by no name of ours.
func (c *Client) search(ctx context.Context, no ids.ID) (*api.CheckoutSession, error) {
	ask := &api.CheckoutSessionListParams{CreatedRange: &api.RangeQueryParams{GreaterThanOrEqual: no.Time().Add(-searchSlack).Unix()}}
	ask.Limit = new(int64(page))
	ask.AddExpand("data." + expanded)
	seen := 0
	for s, err := range c.api.V1CheckoutSessions.List(ctx, ask) {
		switch {
		case err != nil:
			return nil, said(err)
		case s.ClientReferenceID == no.String():
			return s, nil
		}
		if seen++; seen == searchPages*page {
			return nil, fmt.Errorf("the session was not among the latest %d", seen)
		}
	}
	return nil, nil // there is none
}

// Close implements provider.Provider.
func (c *Client) Close(ctx context.Context, p provider.Payment) (provider.Status, error) {
	if p.Ref == "" {
		s, err := c.search(ctx, p.No)
		if err != nil {
			return provider.Status{}, fmt.Errorf("stripe: close: %w", err)
		}
		if s == nil {
			return provider.Status{State: provider.Missing}, nil
		}
		p.Ref = s.ID
	}
	s, err := c.api.V1CheckoutSessions.Expire(ctx, p.Ref, nil)
	if err == nil && s.Status == api.CheckoutSessionStatusExpired && s.ClientReferenceID == p.No.String() {
		return provider.Status{State: provider.Closed}, nil
	}
	if err = said(err); err != nil && !errors.Is(err, provider.ErrRefused) {
		return provider.Status{}, fmt.Errorf("stripe: close: %w", err)
	}
	st, err := c.Query(ctx, p) // it has ended: paid, or expired before
	if err == nil && st.State == provider.Open {
		err = errors.New("stripe: close: the payment is still open")
	}
	return st, err
}

// said is an error of the library as provider.Provider documents it: a refusal of the
// content is provider.ErrRefused, any other error may be gone the next time.
func said(err error) error {
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		return err
	}
	why := fmt.Errorf("status %d: %s %s: %s", e.HTTPStatusCode, e.Type, e.Code, e.Msg)
	switch {
	case e.HTTPStatusCode == http.StatusNotFound:
		return why
	case e.Code == api.ErrorCodeBalanceInsufficient, e.Code == api.ErrorCodeInsufficientFunds:
		return why // for a refund; time repairs it
	case e.HTTPStatusCode == http.StatusBadRequest, e.HTTPStatusCode == http.StatusPaymentRequired:
		return fmt.Errorf("%w: %w", provider.ErrRefused, why)
	default: // 401, 403: a person repairs the key
		return why
	}
}
