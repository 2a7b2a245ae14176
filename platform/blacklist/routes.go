package blacklist

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/audit"
	"stampede/platform/auth"
	"stampede/platform/fault"
	"stampede/platform/httpx"
)

// noStore keeps the list out of caches: it holds personal data.
const noStore = "no-store"

var (
	errFull    = fault.New(fault.Conflict, "list-full", "The blacklist is full; remove what is no longer needed, or raise --blacklist-max.")
	errNoPhone = fault.New(fault.Invalid, "invalid", "Phones cannot be listed here, because this shop keeps no accounts; list the user.")
	errExpired = fault.New(fault.Invalid, "invalid", "expires_at must lie in the future; leave it out for an entry without an end.")
	errReason  = fault.New(fault.Invalid, "invalid", "reason must say something.")
	errNone    = fault.New(fault.NotFound, "not-found", "There is no such entry; it may have been removed already.")
)

// entryView is an entry as operators read it.
type entryView struct {
	ID        string `json:"id" example:"12"`
	Kind      Kind   `json:"kind" enum:"user,phone,address,device"`
	Value     string `json:"value" doc:"A phone is shown in part" example:"203.0.113.0/24"`
	UserID    string `json:"user_id,omitempty" doc:"Of a phone: whose it is, once somebody has an account with it"`
	Reason    string `json:"reason" example:"resells what he buys"`
	ExpiresAt string `json:"expires_at,omitempty" format:"date-time" doc:"Left out for an entry without an end"`
	InForce   bool   `json:"in_force" doc:"false once it has expired"`
	CreatedBy string `json:"created_by" doc:"The operator's user id"`
	CreatedAt string `json:"created_at" format:"date-time"`
}

func (s *Service) view(e Entry) entryView {
	v := entryView{
		ID: decimal(e.ID), Kind: e.Kind, Value: e.masked(), Reason: e.Reason, InForce: !e.over(s.deps.Clock.Now()),
		CreatedBy: decimal(e.CreatedBy), CreatedAt: httpx.Moment(e.CreatedAt),
	}
	if e.Owner > 0 {
		v.UserID = decimal(e.Owner)
	}
	if !e.ExpiresAt.IsZero() {
		v.ExpiresAt = httpx.Moment(e.ExpiresAt)
	}
	return v
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// Routes registers the operators' routes.
func (s *Service) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/blacklist", ID: "admin-list-blacklist", Tag: "operator", Role: auth.Viewer,
		Summary:  "Who may not take part, the newest entry first",
		Problems: map[int]string{http.StatusUnprocessableEntity: "invalid", http.StatusServiceUnavailable: "unavailable"},
	}, s.list)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/blacklist", ID: "admin-add-to-blacklist", Tag: "operator", Role: auth.Operator, Status: http.StatusCreated,
		Summary: "Keep a user, a phone, an address or a device out",
		Description: "In force on every instance within a second: no rush path is given out any more, and a unit that was granted before and is not " +
			"an order yet is refused and goes back into stock. Orders that exist stay as they are. Whoever is refused is told that the item is not " +
			"available, and not why. Adding what is listed already replaces its reason and its end.",
		Problems: map[int]string{
			http.StatusConflict: "list-full", http.StatusUnprocessableEntity: "invalid", http.StatusServiceUnavailable: "unavailable",
		},
	}, s.add)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodDelete, Path: "/api/v1/admin/blacklist/{id}", ID: "admin-remove-from-blacklist", Tag: "operator", Role: auth.Operator,
		Summary:  "Let somebody in again",
		Problems: map[int]string{http.StatusNotFound: "not-found", http.StatusServiceUnavailable: "unavailable"},
	}, s.remove)
}

type listInput struct {
	Kind   Kind   `query:"kind" enum:"user,phone,address,device"`
	Value  string `query:"value" maxLength:"128" doc:"Only the entry that names this; needs kind"`
	Active bool   `query:"active" doc:"Only what is in force"`
	httpx.PageInput
}

type listOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Data       []entryView `json:"data" nullable:"false"`
		NextCursor string      `json:"next_cursor" doc:"Ask for the next page with ?cursor=…; empty on the last page"`
	}
}

func (s *Service) list(ctx context.Context, in *listInput) (*listOutput, error) {
	f := filter{kind: in.Kind, active: in.Active, limit: in.Limit + 1} // one more tells of a next page
	if in.Value != "" {
		if in.Kind == "" {
			return nil, fault.New(fault.Invalid, "invalid", "Say with kind what value is: user, phone, address or device.")
		}
		var err error
		if f.value, _, err = s.spell(ctx, in.Kind, in.Value); err != nil {
			return nil, err
		}
	}
	if in.Cursor != "" {
		var err error
		if f.before, err = strconv.ParseInt(in.Cursor, 10, 64); err != nil || f.before <= 0 {
			return nil, httpx.ErrCursor
		}
	}
	entries, err := list(ctx, s.deps.DB, f)
	if err != nil {
		return nil, errStore(err)
	}
	out := &listOutput{CacheControl: noStore}
	if len(entries) > in.Limit {
		entries = entries[:in.Limit]
		out.Body.NextCursor = decimal(entries[in.Limit-1].ID)
	}
	out.Body.Data = make([]entryView, 0, len(entries))
	for _, e := range entries {
		out.Body.Data = append(out.Body.Data, s.view(e))
	}
	return out, nil
}

type addInput struct {
	Body struct {
		Kind      Kind       `json:"kind" enum:"user,phone,address,device"`
		Value     string     `json:"value" minLength:"1" maxLength:"128" doc:"A user's id; a phone; an address or CIDR range (one IPv6 address counts as its /64); a device as tokens name it" example:"203.0.113.0/24"`
		Reason    string     `json:"reason" minLength:"1" maxLength:"500" doc:"For operators; never shown to the shopper"`
		ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"Left out: until it is removed"`
	}
}

type entryOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         entryView
}

func (s *Service) add(ctx context.Context, in *addInput) (*entryOutput, error) {
	e := Entry{Kind: in.Body.Kind, Reason: strings.TrimSpace(in.Body.Reason), CreatedBy: auth.From(ctx).UserID}
	if e.Reason == "" || strings.ContainsRune(e.Reason, 0) {
		return nil, errReason
	}
	if in.Body.ExpiresAt != nil {
		if e.ExpiresAt = *in.Body.ExpiresAt; !e.ExpiresAt.After(s.deps.Clock.Now()) {
			return nil, errExpired
		}
	}
	var err error
	if e.Value, e.Owner, err = s.spell(ctx, e.Kind, in.Body.Value); err != nil {
		return nil, err
	}
	err = s.change(ctx, func(tx pgx.Tx) error {
		put, err := put(ctx, tx, e)
		if err != nil {
			return err
		}
		e = put
		switch n, err := count(ctx, tx); {
		case err != nil:
			return err
		case n > s.cfg.MaxEntries:
			return errFull
		}
		return audit.Record(ctx, tx, "blacklist.add", "blacklist "+decimal(e.ID), detail(e))
	})
	if err != nil {
		return nil, errStore(err)
	}
	return &entryOutput{noStore, s.view(e)}, nil
}

// spell spells one value as it is compared, and finds the user of a phone.
func (s *Service) spell(ctx context.Context, kind Kind, raw string) (value string, owner int64, err error) {
	if kind != Phone {
		value, err = canonical(kind, raw)
		return value, 0, err
	}
	if s.deps.Phones == nil {
		return "", 0, errNoPhone
	}
	if value, owner, err = s.deps.Phones.Owner(ctx, raw); err != nil {
		return "", 0, errStore(err)
	}
	return value, owner, nil
}

// detail is what the audit log keeps of an entry. It is kept longer than the
// entry, so a phone is cut there too.
func detail(e Entry) map[string]any {
	d := map[string]any{"kind": e.Kind, "value": e.masked(), "reason": e.Reason}
	if !e.ExpiresAt.IsZero() {
		d["expires_at"] = httpx.Moment(e.ExpiresAt)
	}
	return d
}

type removeInput struct {
	ID string `path:"id" doc:"The entry's id"`
}

func (s *Service) remove(ctx context.Context, in *removeInput) (*entryOutput, error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	var gone Entry
	err = s.change(ctx, func(tx pgx.Tx) error {
		e, found, err := remove(ctx, tx, id)
		if err != nil {
			return err
		}
		if !found {
			return errNone
		}
		gone = e
		return audit.Record(ctx, tx, "blacklist.remove", "blacklist "+decimal(id), detail(e))
	})
	if err != nil {
		return nil, errStore(err)
	}
	return &entryOutput{noStore, s.view(gone)}, nil
}

// errStore hides a failing database behind an answer that says what to do; a
// fault is an answer already.
func errStore(err error) error {
	if f := fault.From(err); f.Kind != fault.Internal {
		return f
	}
	return fault.New(fault.Unavailable, "unavailable", "The blacklist cannot be reached now; try again in a moment.").After(time.Second).Because(err)
}
