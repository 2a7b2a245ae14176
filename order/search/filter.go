package search

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/details"
	"stampede/order/orderevent"
	"stampede/order/search/internal/searchdb"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/base/plaintext"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

// Filters narrow a list or an export; one that is not given matches everything. It is
// exported because huma requires that of embedded fields.
type Filters struct {
	OrderNo     string        `query:"order_no" doc:"The one order of this number" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f60"`
	PaymentNo   string        `query:"payment_no" doc:"The order of this payment, whatever became of it" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f61"`
	ProviderTxn string        `query:"provider_txn" maxLength:"128" doc:"The order that money moved for under this number of a provider"`
	PickupCode  string        `query:"pickup_code" maxLength:"32" doc:"The order of this code, as its shopper shows it" example:"7K3M-Q9TD-X2HV"`
	ExternalID  string        `query:"external_id" maxLength:"64" doc:"Orders with this external id; of those the 1000 latest"`
	OrderNos    []string      `query:"order_nos" maxItems:"200" doc:"Only orders of these numbers, separated by commas"`
	Recipient   string        `query:"recipient" maxLength:"60" doc:"Only of a recipient of this whole name; of its 1000 latest. Not for viewers"`
	PhoneTail   string        `query:"phone_tail" pattern:"^([0-9]{4})?$" doc:"Only with a recipient whose phone ends with these four digits; of their 1000 latest. Not for viewers" example:"8000"`
	Phone       string        `query:"phone" maxLength:"32" doc:"Only of the account with this phone; the whole number, in E.164 the plus sign is written %2B"`
	ItemID      httpx.QueryID `query:"item_id" doc:"Only of this item"`
	SKU         string        `query:"sku" maxLength:"64" doc:"Only of this SKU, in whichever session; of its 1000 latest"`
	SessionID   httpx.QueryID `query:"session_id" doc:"Only of this session"`
	ActivityID  httpx.QueryID `query:"activity_id" doc:"Only of this activity"`
	UserID      httpx.QueryID `query:"user_id" doc:"Only of this user"`
	Status      string        `query:"status" enum:"pending_payment,paid,completed,closed,refused,refunding,refunded,refund_failed" doc:"Only in this state"`
	Disputed    bool          `query:"disputed" doc:"Only with a dispute that is not closed"`
	ToShip      bool          `query:"to_ship" doc:"Only what the shop has to send: paid, for delivery, not sent, and no refund of it open; the first paid first"`
	From        time.Time     `query:"created_from" doc:"Orders created at this time or later" example:"2026-11-11T20:00:00+08:00"`
	To          time.Time     `query:"created_until" doc:"Orders created before this time" example:"2026-11-11T21:00:00+08:00"`
	PaidFrom    time.Time     `query:"paid_from" doc:"Orders paid at this time or later" example:"2026-11-11T20:00:00+08:00"`
	PaidTo      time.Time     `query:"paid_until" doc:"Orders paid before this time" example:"2026-11-12T20:00:00+08:00"`
	UpdatedFrom time.Time     `query:"updated_from" doc:"Orders changed at this time or later" example:"2026-11-11T20:00:00+08:00"`
	UpdatedTo   time.Time     `query:"updated_until" doc:"Orders last changed before this time" example:"2026-11-12T20:00:00+08:00"`
}

// Errors of bad filters.
var (
	errNumber = fault.Plain(fault.Invalid,
		fault.T("order_no and payment_no have 32 hex digits; copy the whole number.",
			"order_no 和 payment_no 为 32 位十六进制数，请复制完整号码。"))
	errSpan = fault.Plain(fault.Invalid,
		fault.T("created_from must be before created_until, paid_from before paid_until, and updated_from before updated_until.",
			"created_from 须早于 created_until，paid_from 须早于 paid_until，updated_from 须早于 updated_until。"))
)

// errSearch keeps viewers, who read recipients masked, from completing them by trying.
var errSearch = auth.ErrForbidden.Saying(fault.T("Viewers cannot search by recipient; ask an operator.", "只读角色不能按收件人查询，请联系运营人员。"))

// maxItems bounds the items of a SKU that a search looks for.
const maxItems = 1000

// maxReferred bounds the orders of one external id, or one recipient, that a search looks for:
// a shop books some of a day together, not all, and four digits are those of one phone in
// 10,000.
const maxReferred = 1000

// filter is Filters, checked, with what is known by another name looked up.
type filter struct {
	// only holds the numbers that can match; nil for all.
	only []ids.ID
	// items that can match; nil for all.
	items                   []int64
	user, session, activity int64
	status                  string
	disputed, toShip        bool
	created, paid, updated  timeSpan
	// parcels adds to each row what sending it takes.
	parcels bool
	// numbers bounds the numbers that can match.
	numbers numberSpan
}

// matches checks what the walk may not have bounded.
func (f *filter) matches(r *row) bool {
	switch {
	case f.items != nil && !slices.Contains(f.items, r.ItemID), f.user != 0 && r.UserID != f.user,
		f.session != 0 && r.SessionID != f.session, f.activity != 0 && r.ActivityID != f.activity,
		f.status != "" && r.Status != f.status,
		f.toShip && (r.Status != orderevent.StatusPaid || r.Handover == nil || *r.Handover != orderevent.HandoverToShip),
		!f.created.has(r.CreatedAt), !f.updated.has(r.UpdatedAt):
		return false
	}
	return !f.paid.given() || r.PaidAt != nil && f.paid.has(*r.PaidAt)
}

// filterOf checks filters and looks up the orders, users and items that they name in
// another way.
func (s *Service) filterOf(ctx context.Context, in *Filters) (*filter, error) {
	f := &filter{
		user: in.UserID.N, session: in.SessionID.N, activity: in.ActivityID.N, status: in.Status, disputed: in.Disputed, toShip: in.ToShip,
		created: timeSpan{in.From, in.To}, paid: timeSpan{in.PaidFrom, in.PaidTo}, updated: timeSpan{in.UpdatedFrom, in.UpdatedTo},
	}
	for _, t := range []timeSpan{f.created, f.paid, f.updated} {
		if !t.from.IsZero() && !t.to.IsZero() && !t.from.Before(t.to) {
			return nil, errSpan
		}
	}
	f.numbers = f.created.numbers()
	if err := s.noteRecipient(ctx, in); err != nil {
		return nil, err
	}
	if err := s.lookUpNumbers(ctx, in, f); err != nil {
		return nil, err
	}
	if in.Phone != "" {
		var user int64 // 0 without accounts, which no user has
		if s.deps.Accounts != nil {
			var err error
			if user, err = s.deps.Accounts.Searched(ctx, in.Phone); err != nil {
				return nil, err // a fault, whose text says what is wrong with the phone
			}
		}
		if user == 0 || f.user != 0 && f.user != user {
			f.only = []ids.ID{}
		}
		f.user = user
	}
	return f, s.lookUpSale(ctx, in, f)
}

// noteRecipient records a search for a person, as one by phone is recorded; the name itself
// is not. It fails for those who read names masked: they could guess them.
func (s *Service) noteRecipient(ctx context.Context, in *Filters) error {
	if in.Recipient == "" && in.PhoneTail == "" {
		return nil
	}
	if !auth.From(ctx).Role.May(auth.Operator) {
		return errSearch
	}
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		return audit.Note(ctx, tx, "order.search", "orders", map[string]any{"recipient": in.Recipient != "", "phone_tail": in.PhoneTail})
	})
	if err != nil {
		return errReading.Because(err)
	}
	return nil
}

// lookUpNumbers finds the orders of each number or code that is given.
func (s *Service) lookUpNumbers(ctx context.Context, in *Filters, f *filter) error {
	for _, by := range []struct {
		text string
		find func(ctx context.Context, text string) ([]ids.ID, error)
	}{
		{in.OrderNo, func(_ context.Context, text string) ([]ids.ID, error) {
			no, err := number(text)
			return []ids.ID{no}, err
		}},
		{in.PaymentNo, func(ctx context.Context, text string) ([]ids.ID, error) {
			no, err := number(text)
			if err != nil {
				return nil, err
			}
			return s.deps.Payments.OrdersOfPayment(ctx, no)
		}},
		{in.ProviderTxn, func(ctx context.Context, txn string) ([]ids.ID, error) {
			return s.deps.Payments.OrdersOfTransaction(ctx, txn)
		}},
		{in.PickupCode, func(ctx context.Context, text string) ([]ids.ID, error) {
			no, ok, err := details.OrderOf(ctx, s.deps.DB, text)
			if !ok {
				return nil, err
			}
			return []ids.ID{no}, err
		}},
		{in.ExternalID, func(ctx context.Context, id string) ([]ids.ID, error) {
			return searchdb.New(s.deps.DB).ByExternalID(ctx, searchdb.ByExternalIDParams{ExternalID: id, Most: maxReferred})
		}},
		{strings.Join(in.OrderNos, ","), func(context.Context, string) (nos []ids.ID, err error) {
			for _, text := range in.OrderNos {
				no, err := number(text)
				if err != nil {
					return nil, err
				}
				nos = append(nos, no)
			}
			return nos, nil
		}},
		{in.Recipient, func(ctx context.Context, name string) ([]ids.ID, error) {
			return searchdb.New(s.deps.DB).ByRecipient(ctx, searchdb.ByRecipientParams{Name: plaintext.Clean(name), Most: maxReferred})
		}},
		{in.PhoneTail, func(ctx context.Context, tail string) ([]ids.ID, error) {
			return searchdb.New(s.deps.DB).ByPhoneTail(ctx, searchdb.ByPhoneTailParams{Tail: tail, Most: maxReferred})
		}},
	} {
		if by.text == "" {
			continue
		}
		nos, err := by.find(ctx, by.text)
		if err != nil {
			return fmt.Errorf("order: search: %w", err)
		}
		if f.only == nil {
			f.only = append([]ids.ID{}, nos...)
		} else {
			f.only = slices.DeleteFunc(f.only, func(no ids.ID) bool { return !slices.Contains(nos, no) })
		}
	}
	return nil
}

// number parses the number of an order or a payment.
func number(text string) (ids.ID, error) {
	no, err := ids.Parse(text)
	if err != nil {
		return no, errNumber.Because(err)
	}
	return no, nil
}

// lookUpSale bounds the numbers by when the items, the session and the activity were on
// sale. Something that was never on sale bounds nothing.
func (s *Service) lookUpSale(ctx context.Context, in *Filters, f *filter) error {
	if in.SKU != "" {
		items, opens, closes, err := s.deps.Plan.ItemsOfSKU(ctx, in.SKU, maxItems)
		if err != nil {
			return fmt.Errorf("order: search: %w", err)
		}
		if f.items = append([]int64{}, items...); len(items) == 0 {
			f.only = []ids.ID{}
			return nil
		}
		f.numbers = f.numbers.within(onSale(opens, closes))
	}
	if in.ItemID.N != 0 {
		if f.items != nil && !slices.Contains(f.items, in.ItemID.N) {
			f.only = []ids.ID{}
		}
		f.items = []int64{in.ItemID.N}
	}
	if in.ItemID.N == 0 && in.SessionID.N == 0 && in.ActivityID.N == 0 {
		return nil
	}
	opens, closes, known, err := s.deps.Plan.WhenOnSale(ctx, given(in.ItemID.N), given(in.SessionID.N), given(in.ActivityID.N))
	if err != nil {
		return fmt.Errorf("order: search: %w", err)
	}
	if known {
		f.numbers = f.numbers.within(onSale(opens, closes))
	}
	return nil
}

// given is a filter's value, nil when it is left out.
func given(id int64) *int64 {
	if id == 0 {
		return nil
	}
	return &id
}
