package blacklist

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/idempotency"
	"stampede/platform/identity/account"
	"stampede/platform/identity/blacklist/internal/blacklistdb"
	"stampede/platform/watch/audit"
)

var (
	// ErrFull refuses an entry of a list that has as many as it may.
	ErrFull = fault.New(fault.Conflict, "list-full", fault.T("The list is full", "名单已满"),
		fault.T("The blacklist is full; remove entries that are no longer needed, or raise --blacklist-max.",
			"黑名单已满，请移除不再需要的条目，或调大 --blacklist-max。"),
		fault.T("Remove an entry that is no longer needed, then add this one.", "请先移除不再需要的条目，再添加新的。"))
	errExpired = fault.Plain(fault.Invalid,
		fault.T("expires_at must lie in the future; leave it out for an entry without an end.",
			"expires_at 须晚于当前时间；长期有效请留空。"))
	errReason = fault.Plain(fault.Invalid, fault.T("reason must not be blank.", "reason 不能为空。"))
	errNone   = fault.Plain(fault.NotFound,
		fault.T("There is no such entry; it may already have been removed.", "没有该条目，可能已被移除。"))
)

// blacklistEntry is an entry as operators see it.
type blacklistEntry struct {
	ID        string `json:"id" example:"12"`
	Kind      Kind   `json:"kind" enum:"user,phone,address,device" doc:"What value is"`
	Value     string `json:"value" doc:"A phone is masked" example:"203.0.113.0/24"`
	UserID    string `json:"user_id,omitempty" doc:"For a phone: its user, once it has an account"`
	Reason    string `json:"reason" example:"scalper"`
	ExpiresAt string `json:"expires_at,omitempty" format:"date-time" doc:"Absent if the entry has no end"`
	InForce   bool   `json:"in_force" doc:"false once it has expired"`
	CreatedBy string `json:"created_by" doc:"The operator's user id" example:"7"`
	CreatedAt string `json:"created_at" format:"date-time"`
	UpdatedAt string `json:"updated_at" format:"date-time"`
}

func (s *Service) view(e Entry) blacklistEntry {
	v := blacklistEntry{
		ID: httpx.FormatID(e.ID), Kind: Kind(e.Kind), Value: masked(e), Reason: e.Reason, InForce: !over(&e, s.deps.Clock.Now()),
		ExpiresAt: httpx.MomentOrNone(e.ExpiresAt), CreatedBy: httpx.FormatID(e.CreatedBy),
		CreatedAt: httpx.Moment(e.CreatedAt), UpdatedAt: httpx.Moment(e.UpdatedAt),
	}
	if e.Owner > 0 {
		v.UserID = httpx.FormatID(e.Owner)
	}
	return v
}

// Routes registers the operators' routes.
func (s *Service) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/admin/blacklist", ID: "list-blacklist", Tag: "operator", Role: auth.Viewer,
		Summary: "Blacklist entries, the newest first",
	}, s.list)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/admin/blacklist", ID: "add-to-blacklist", Tag: "operator", Role: auth.Operator, Status: http.StatusCreated,
		Summary: "Add a user, a phone, an address or a device to the blacklist", Audit: "blacklist.add",
		Description: "In force on every instance within a second: listed users get no rush path, and a unit that was already granted but is not " +
			"an order yet is refused and goes back into stock; they cannot log in, refresh, scan a QR login or receive a code. Existing orders stay " +
			"as they are. The refusal says that the item is not available or that the login is refused, but not why. Adding an existing entry replaces its reason and its end.",
		Refuses: []*fault.Error{ErrFull},
	}, s.add)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodDelete, Path: "/api/v1/admin/blacklist/{id}", ID: "remove-from-blacklist", Tag: "operator", Role: auth.Operator,
		Summary: "Remove a blacklist entry", Audit: "blacklist.remove",
	}, s.remove)
}

type listInput struct {
	Kind   Kind   `query:"kind" enum:"user,phone,address,device" doc:"Only entries of this kind"`
	Value  string `query:"value" maxLength:"128" doc:"Only the entry with this value; requires kind"`
	Active bool   `query:"active" doc:"Only entries in force"`
	httpx.ChangesInput
}

func (s *Service) list(ctx context.Context, in *listInput) (*httpx.PageOutput[blacklistEntry], error) {
	p := blacklistdb.EntriesParams{Kind: string(in.Kind), Active: in.Active}
	if in.Value != "" {
		if in.Kind == "" {
			return nil, fault.Plain(fault.Invalid,
				fault.T("value requires kind: user, phone, address or device.",
					"填写 value 时须同时填写 kind：user、phone、address 或 device。"))
		}
		if in.Kind == Phone && !auth.From(ctx).Role.May(auth.Operator) {
			return nil, account.ErrSearch
		}
		var err error
		if p.Value, _, err = s.spell(ctx, in.Kind, in.Value); err != nil {
			return nil, err
		}
	}
	return httpx.PageOfChanges(in.ChangesInput, func(page httpx.PageInput) (entries []Entry, err error) {
		if p.Before, err = page.BeforeID(); err != nil {
			return nil, err
		}
		p.AtMost = int32(page.Ask()) //nolint:gosec // a page
		entries, err = blacklistdb.New(s.deps.DB).Entries(ctx, p)
		return entries, unreachable(err)
	}, func(e Entry) time.Time { return e.UpdatedAt }, s.view, func(e Entry) string { return httpx.FormatID(e.ID) })
}

type addInput struct {
	idempotency.Header
	Body struct {
		Kind      Kind       `json:"kind" enum:"user,phone,address,device"`
		Value     string     `json:"value" minLength:"1" maxLength:"128" doc:"A user's id; a phone; an address or CIDR range (one IPv6 address counts as its /64); a device as tokens name it" example:"203.0.113.0/24"`
		Reason    string     `json:"reason" minLength:"1" maxLength:"500" doc:"For operators; never shown to the shopper"`
		ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"Absent: until it is removed"`
	} `nameHint:"BlacklistAddition"`
}

func (s *Service) add(ctx context.Context, in *addInput) (*httpx.Output[blacklistEntry], error) {
	e := blacklistdb.PutEntryParams{
		Kind: string(in.Body.Kind), Reason: strings.TrimSpace(in.Body.Reason), ExpiresAt: in.Body.ExpiresAt, CreatedBy: auth.From(ctx).UserID,
	}
	if e.Reason == "" || strings.ContainsRune(e.Reason, 0) {
		return nil, errReason
	}
	var err error
	if e.Value, e.Owner, err = s.spell(ctx, in.Body.Kind, in.Body.Value); err != nil {
		return nil, err
	}
	var view blacklistEntry
	err = s.current.Change(ctx, func(tx pgx.Tx) (added bool, err error) {
		view, err = idempotency.Once(ctx, tx, in.Key, "blacklist.add", in.Body, func() (blacklistEntry, error) {
			added = true
			return s.put(ctx, tx, e)
		})
		return added, err
	})
	if err != nil {
		return nil, unreachable(err)
	}
	return httpx.Answer(view), nil
}

// put adds an entry, or replaces the reason and the end of the existing one, with its
// audit record.
func (s *Service) put(ctx context.Context, tx pgx.Tx, p blacklistdb.PutEntryParams) (none blacklistEntry, err error) {
	if over(&Entry{ExpiresAt: p.ExpiresAt}, s.deps.Clock.Now()) {
		return none, errExpired
	}
	q := blacklistdb.New(tx)
	if err := q.LockEntries(ctx); err != nil {
		return none, fmt.Errorf("lock the list: %w", err)
	}
	had, err := q.Entries(ctx, blacklistdb.EntriesParams{Kind: p.Kind, Value: p.Value, AtMost: 1})
	if err != nil {
		return none, fmt.Errorf("read entries: %w", err)
	}
	e, err := q.PutEntry(ctx, p)
	if err != nil {
		return none, fmt.Errorf("put entry: %w", withoutValues(err))
	}
	switch n, err := q.CountEntries(ctx); {
	case err != nil:
		return none, fmt.Errorf("count entries: %w", err)
	case n > int64(s.set.MaxEntries):
		return none, ErrFull
	}
	did := audit.Change{After: detail(e)}
	if len(had) > 0 {
		did.Before = detail(had[0])
	}
	return s.view(e), audit.Record(ctx, tx, "blacklist.add", subjectOf(e), did)
}

// withoutValues drops the row that Postgres quotes when it refuses one: errors are
// logged, and the row may contain a phone.
func withoutValues(err error) error {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && (strings.HasPrefix(pgErr.Code, "22") || strings.HasPrefix(pgErr.Code, "23")) {
		return fmt.Errorf("SQLSTATE %s, constraint %q", pgErr.Code, pgErr.ConstraintName)
	}
	return err
}

// spell returns a value's canonical form, and the user of a phone.
func (s *Service) spell(ctx context.Context, kind Kind, raw string) (value string, owner int64, err error) {
	if kind != Phone {
		value, err = canonical(kind, raw)
		return value, 0, err
	}
	value, owner, err = s.deps.Accounts.Owner(ctx, raw)
	return value, owner, unreachable(err)
}

// subjectOf names an entry in the audit log.
func subjectOf(e Entry) string { return "blacklist " + httpx.FormatID(e.ID) }

// detail is what the audit log keeps of an entry. It outlives the entry, so phones
// are masked there too.
func detail(e Entry) map[string]any {
	d := map[string]any{"kind": e.Kind, "value": masked(e), "reason": e.Reason}
	if e.ExpiresAt != nil {
		d["expires_at"] = httpx.Moment(*e.ExpiresAt)
	}
	return d
}

type removeInput struct {
	ID string `path:"id" doc:"The entry's id"`
}

func (s *Service) remove(ctx context.Context, in *removeInput) (*httpx.Output[blacklistEntry], error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	var gone Entry
	err = s.current.Change(ctx, func(tx pgx.Tx) (bool, error) {
		gone, err = blacklistdb.New(tx).RemoveEntry(ctx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, errNone
		}
		if err != nil {
			return false, fmt.Errorf("remove entry: %w", err)
		}
		return true, audit.Record(ctx, tx, "blacklist.remove", subjectOf(gone), audit.Change{Before: detail(gone)})
	})
	if err != nil {
		return nil, unreachable(err)
	}
	return httpx.Answer(s.view(gone)), nil
}

// unreachable is the answer to an operator whose query failed.
func unreachable(err error) error {
	return httpx.Unreachable(fault.T("The blacklist", "黑名单"), err)
}
