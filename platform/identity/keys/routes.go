package keys

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/keys/internal/keysdb"
	"stampede/platform/watch/audit"
)

// maxKeys bounds the memory of the keys in force, and what an operator can oversee.
const maxKeys = 100

// longestLife is the latest end of a key that has one.
const longestLife = 5 * 365 * 24 * time.Hour

var (
	errNone   = fault.Plain(fault.NotFound, fault.T("There is no such API key.", "没有该 API 密钥。"))
	errName   = fault.Plain(fault.Invalid, fault.T("name must not be blank.", "name 不能为空。"))
	errExpiry = fault.Plain(fault.Invalid, fault.T("expires_at must lie in the next five years; leave it out for a key without an end.",
		"expires_at 须在未来五年内；长期有效请留空。"))
	errRevoked = fault.New(fault.Conflict, "key-revoked", fault.T("This API key is revoked", "该 API 密钥已撤销"),
		fault.T("A revoked key stays revoked.", "已撤销的密钥无法恢复。"), fault.T("Make another key.", "请创建新的密钥。"))
	errFull = fault.New(fault.Conflict, "keys-full", fault.T("There are as many API keys as there may be", "API 密钥数量已达上限"),
		fault.T("A shop has at most 100 keys in force.", "最多 100 个有效密钥。"), fault.T("Revoke keys that are no longer used.", "请撤销不再使用的密钥。"))
)

func unreachable(err error) error {
	return httpx.Unreachable(fault.T("The API keys", "API 密钥"), err)
}

// Key is an API key as admins see it.
type Key struct {
	ID         string   `json:"id" example:"4"`
	UserID     string   `json:"user_id" doc:"Who it is in the audit log"`
	Name       string   `json:"name" example:"ERP"`
	Hint       string   `json:"hint" doc:"Its last characters" example:"x7Qd"`
	Scopes     []string `json:"scopes" nullable:"false" example:"[\"orders:read\"]"`
	Namespace  string   `json:"namespace" doc:"Whose names the users have that it exchanges" example:"backend"`
	State      string   `json:"state" enum:"active,expired,revoked"`
	CreatedBy  string   `json:"created_by" doc:"The admin's user id"`
	CreatedAt  string   `json:"created_at" format:"date-time"`
	UpdatedAt  string   `json:"updated_at" format:"date-time"`
	ExpiresAt  string   `json:"expires_at,omitempty" format:"date-time" doc:"Absent if it has no end"`
	RevokedAt  string   `json:"revoked_at,omitempty" format:"date-time"`
	LastUsedAt string   `json:"last_used_at,omitempty" format:"date-time" doc:"To the minute; absent if it was never used"`
}

// Made is a key that was just made.
type Made struct {
	Key
	Secret string `json:"key" doc:"Shown only now. Send it as \"Authorization: Bearer stpk_…\"" example:"stpk_4tKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo1x7Qd2"`
}

func (s *Service) view(k keysdb.AccountApiKey) Key {
	v := Key{
		ID: httpx.FormatID(k.ID), UserID: httpx.FormatID(k.UserID), Name: k.Name, Hint: k.Hint, Scopes: k.Scopes, Namespace: k.Namespace, State: "active", CreatedBy: httpx.FormatID(k.CreatedBy),
		CreatedAt: httpx.Moment(k.CreatedAt), UpdatedAt: httpx.Moment(k.UpdatedAt), ExpiresAt: httpx.MomentOrNone(k.ExpiresAt), RevokedAt: httpx.MomentOrNone(k.RevokedAt), LastUsedAt: httpx.MomentOrNone(k.LastUsedAt),
	}
	switch {
	case k.RevokedAt != nil:
		v.State = "revoked"
	case k.ExpiresAt != nil && !s.deps.Clock.Now().Before(*k.ExpiresAt):
		v.State = "expired"
	}
	return v
}

// Routes registers the admins' routes.
func (s *Service) Routes(rt *httpx.Router) {
	const path = "/api/v1/admin/api-keys"
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: path, ID: "list-api-keys", Tag: "operator", Role: auth.Admin,
		Summary: "API keys of the shop's own systems, the newest first",
	}, s.list)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: path, ID: "make-api-key", Tag: "operator", Role: auth.Admin, Status: http.StatusCreated,
		Summary: "Make an API key", Audit: "api-key.make", NoKey: "the answer is the only one that shows the key, and is stored nowhere", Refuses: []*fault.Error{errFull},
		Description: "A key may call the operations that name one of its scopes (`x-scope`), and no others. It has its own rates, and its changes are in the audit " +
			"log under its name.",
	}, s.make)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPatch, Path: path + "/{id}", ID: "change-api-key", Tag: "operator", Role: auth.Admin,
		Summary: "Change the name, the scopes or the end of an API key", Audit: "api-key.change", Refuses: []*fault.Error{errRevoked, errFull},
	}, s.change)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: path + "/{id}/revoke", ID: "revoke-api-key", Tag: "operator", Role: auth.Admin,
		Summary: "Revoke an API key on every instance, within a second", Audit: "api-key.revoke", NoKey: httpx.SetsState,
	}, s.revoke)
}

func (s *Service) list(ctx context.Context, in *httpx.ChangesInput) (*httpx.PageOutput[Key], error) {
	return httpx.PageOfChanges(*in, func(page httpx.PageInput) ([]keysdb.AccountApiKey, error) {
		before, err := page.BeforeID()
		if err != nil {
			return nil, err
		}
		rows, err := keysdb.New(s.deps.DB).Keys(ctx, keysdb.KeysParams{Before: before, AtMost: int32(page.Ask())}) //nolint:gosec // a page
		return rows, unreachable(err)
	}, func(k keysdb.AccountApiKey) time.Time { return k.UpdatedAt }, s.view, func(k keysdb.AccountApiKey) string { return httpx.FormatID(k.ID) })
}

// detail is what the audit log keeps of a key.
func detail(k keysdb.AccountApiKey) map[string]any {
	d := map[string]any{"name": k.Name, "hint": k.Hint, "scopes": k.Scopes, "namespace": k.Namespace}
	if k.ExpiresAt != nil {
		d["expires_at"] = httpx.Moment(*k.ExpiresAt)
	}
	return d
}

func subjectOf(k keysdb.AccountApiKey) string { return "api-key " + httpx.FormatID(k.ID) }

// check checks what an admin wrote of a key, and spells its scopes in their order.
func (s *Service) check(name string, scopes []string, until *time.Time) (spelled []string, err error) {
	if strings.TrimSpace(name) == "" {
		return nil, errName
	}
	now := s.deps.Clock.Now()
	if until != nil && (!until.After(now) || until.After(now.Add(longestLife))) {
		return nil, errExpiry
	}
	for _, scope := range auth.Scopes {
		if slices.Contains(scopes, string(scope)) {
			spelled = append(spelled, string(scope))
		}
	}
	return spelled, nil
}

// scopes are what a key may do, of auth.Scopes.
type scopes []string

// Schema lists them for the document.
func (scopes) Schema(huma.Registry) *huma.Schema {
	one := huma.Schema{Type: huma.TypeString}
	for _, s := range auth.Scopes {
		one.Enum = append(one.Enum, string(s))
	}
	return &huma.Schema{Type: huma.TypeArray, Items: &one, MinItems: new(1), MaxItems: new(len(auth.Scopes))}
}

type makeInput struct {
	Body struct {
		Name      string     `json:"name" minLength:"1" maxLength:"64" example:"ERP"`
		Scopes    scopes     `json:"scopes" example:"[\"orders:read\",\"events:read\"]"`
		Namespace string     `json:"namespace,omitempty" default:"backend" pattern:"^[a-z0-9-]{1,32}$" doc:"Whose names the users have that it exchanges: keys of one namespace name the same users, so that one can take another one's place; systems that count their users apart have one each. It stays as it is" example:"app"`
		ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"Absent: until it is revoked"`
	} `nameHint:"KeyMaking"`
}

func (s *Service) make(ctx context.Context, in *makeInput) (*httpx.Output[Made], error) {
	scopes, err := s.check(in.Body.Name, in.Body.Scopes, in.Body.ExpiresAt)
	if err != nil {
		return nil, err
	}
	key := newKey()
	hash := sha256.Sum256([]byte(key))
	var made keysdb.AccountApiKey
	err = s.current.Change(ctx, func(tx pgx.Tx) (bool, error) {
		q := keysdb.New(tx)
		if err := roomFor(ctx, q); err != nil {
			return false, err
		}
		name := strings.TrimSpace(in.Body.Name)
		user, err := q.AddService(ctx, name)
		if err != nil {
			return false, err
		}
		made, err = q.AddKey(ctx, keysdb.AddKeyParams{
			UserID: user, Name: name, Hash: hash[:], Hint: key[len(key)-hintChars:], Scopes: scopes, Namespace: in.Body.Namespace, CreatedBy: auth.From(ctx).UserID, ExpiresAt: in.Body.ExpiresAt,
		})
		if err != nil {
			return false, err
		}
		return true, audit.Record(ctx, tx, "api-key.make", subjectOf(made), audit.Change{After: detail(made)})
	})
	if err != nil {
		return nil, unreachable(err)
	}
	return httpx.Answer(Made{s.view(made), key}), nil
}

// roomFor returns errFull unless one more key may be in force.
func roomFor(ctx context.Context, q *keysdb.Queries) error {
	if err := q.LockKeys(ctx); err != nil {
		return err
	}
	n, err := q.CountKeys(ctx)
	if err == nil && n >= maxKeys {
		err = errFull
	}
	return err
}

type changeInput struct {
	ID   string `path:"id" doc:"The key's id"`
	Body struct {
		Name      *string    `json:"name,omitempty" minLength:"1" maxLength:"64"`
		Scopes    *scopes    `json:"scopes,omitempty"`
		ExpiresAt *time.Time `json:"expires_at,omitempty"`
	} `nameHint:"KeyChange"`
}

func (s *Service) change(ctx context.Context, in *changeInput) (*httpx.Output[Key], error) {
	return s.locked(ctx, in.ID, func(tx pgx.Tx, q *keysdb.Queries, had keysdb.AccountApiKey) (now keysdb.AccountApiKey, err error) {
		if had.RevokedAt != nil {
			return now, errRevoked
		}
		to := keysdb.ChangeKeyParams{ID: had.ID, Name: had.Name, Scopes: had.Scopes, ExpiresAt: had.ExpiresAt}
		if in.Body.Name != nil {
			to.Name = strings.TrimSpace(*in.Body.Name)
		}
		if in.Body.Scopes != nil {
			to.Scopes = *in.Body.Scopes
		}
		if in.Body.ExpiresAt != nil {
			to.ExpiresAt = in.Body.ExpiresAt
		}
		if to.Scopes, err = s.check(to.Name, to.Scopes, in.Body.ExpiresAt); err != nil {
			return now, err
		}
		if in.Body.ExpiresAt != nil && s.view(had).State == "expired" { // it is in force again
			if err := roomFor(ctx, q); err != nil {
				return now, err
			}
		}
		if now, err = q.ChangeKey(ctx, to); err == nil {
			err = q.NameService(ctx, keysdb.NameServiceParams{ID: had.UserID, Name: now.Name})
		}
		if err != nil {
			return now, err
		}
		return now, audit.Record(ctx, tx, "api-key.change", subjectOf(now), audit.Change{Before: detail(had), After: detail(now)})
	})
}

type revokeInput struct {
	ID string `path:"id" doc:"The key's id"`
}

func (s *Service) revoke(ctx context.Context, in *revokeInput) (*httpx.Output[Key], error) {
	return s.locked(ctx, in.ID, func(tx pgx.Tx, q *keysdb.Queries, had keysdb.AccountApiKey) (now keysdb.AccountApiKey, err error) {
		if now, err = q.RevokeKey(ctx, had.ID); err != nil || had.RevokedAt != nil {
			return now, err
		}
		return now, audit.Record(ctx, tx, "api-key.revoke", subjectOf(now), audit.Change{Before: detail(had)})
	})
}

// locked changes a key, with its row locked.
func (s *Service) locked(ctx context.Context, raw string, do func(tx pgx.Tx, q *keysdb.Queries, had keysdb.AccountApiKey) (keysdb.AccountApiKey, error)) (*httpx.Output[Key], error) {
	id, err := httpx.ParseID(raw)
	if err != nil {
		return nil, err
	}
	var now keysdb.AccountApiKey
	err = s.current.Change(ctx, func(tx pgx.Tx) (bool, error) {
		q := keysdb.New(tx)
		had, err := q.LockKey(ctx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, errNone
		}
		if err == nil {
			now, err = do(tx, q, had)
		}
		return err == nil, err
	})
	if err != nil {
		return nil, unreachable(err)
	}
	return httpx.Answer(s.view(now)), nil
}
