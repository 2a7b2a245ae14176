package staff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/account/login"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

const adminPath = "/api/v1/admin/users"

// Routes registers the routes of staff.
func (s *Service) Routes(rt *httpx.Router) {
	s.firstAdminRoute(rt)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: adminPath, ID: "list-users", Tag: "operator", Role: auth.Viewer,
		Summary: "Accounts, the newest first", Audit: "user.search",
		Description: "All given filters apply together. Viewers see masked phones and cannot filter by phone, which would complete a masked one in 10,000 attempts; " +
			"an operator's search by phone is limited to 120 an hour and recorded in the audit log.",
	}, s.adminList)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: adminPath + "/{id}", ID: "get-user", Tag: "operator", Role: auth.Viewer,
		Summary: "An account with its logins",
	}, s.adminDetail)
	change := []*fault.Error{account.ErrLastAdmin, fault.ErrTransition}
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: adminPath + "/{id}/role", ID: "set-role", Tag: "operator", Role: auth.Admin, Status: http.StatusNoContent,
		Summary: "Give an account a role", Audit: "user.role", NoKey: httpx.SetsState,
		Description: "Its access tokens end, and the next refresh issues one with the new role. The last admin cannot be demoted.",
		Refuses:     change,
	}, func(ctx context.Context, in *roleInput) (*struct{}, error) {
		return nil, withUser(in.ID, func(user int64) error { return s.setRole(ctx, user, in.Body.Role) })
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: adminPath + "/{id}/disable", ID: "disable-user", Tag: "operator", Role: auth.Admin, Status: http.StatusNoContent,
		Summary: "Disable an account", Audit: "user.disable", NoKey: httpx.SetsState, Description: "All its logins end. The last admin cannot be disabled.", Refuses: change,
	}, func(ctx context.Context, in *disableInput) (*struct{}, error) {
		return nil, withUser(in.ID, func(user int64) error { return s.disable(ctx, user, account.Clean(in.Body.Reason)) })
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: adminPath + "/{id}/enable", ID: "enable-user", Tag: "operator", Role: auth.Admin, Status: http.StatusNoContent,
		Summary: "Enable a disabled account", Audit: "user.enable", NoKey: httpx.SetsState, Refuses: change,
	}, func(ctx context.Context, in *userInPath) (*struct{}, error) {
		return nil, withUser(in.ID, func(user int64) error { return s.enable(ctx, user) })
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: adminPath + "/{id}/end-logins", ID: "end-user-logins", Tag: "operator", Role: auth.Admin, Status: http.StatusNoContent,
		Summary: "End all logins and tokens of a user", Audit: "user.end-logins", NoKey: httpx.SetsState,
		Description: "The user may log in again immediately. Tokens made with `stampede token` end too, also those of a user without an account.",
		Refuses:     change,
	}, func(ctx context.Context, in *userInPath) (*struct{}, error) {
		return nil, withUser(in.ID, func(user int64) error { return s.endAll(ctx, user) })
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodDelete, Path: adminPath + "/{id}/totp", ID: "reset-user-totp", Tag: "operator", Role: auth.Admin, Status: http.StatusNoContent,
		Summary: "Remove the second factor of a user who lost it", Audit: "user.totp-reset", Description: "All logins of the user end.",
		Refuses: []*fault.Error{account.ErrErased},
	}, func(ctx context.Context, in *userInPath) (*struct{}, error) {
		return nil, withUser(in.ID, func(user int64) error { return s.credentials.Factors.Reset(ctx, user) })
	})
}

type userInPath struct {
	ID string `path:"id" doc:"The user's id" example:"1000042"`
}

type roleInput struct {
	ID   string `path:"id" doc:"The user's id" example:"1000042"`
	Body struct {
		Role auth.Role `json:"role" enum:"shopper,viewer,operator,admin"`
	} `nameHint:"RoleChange"`
}

type disableInput struct {
	ID   string `path:"id" doc:"The user's id" example:"1000042"`
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"200" doc:"For the audit log"`
	} `nameHint:"UserDisabling"`
}

// withUser parses the id in the path for do.
func withUser(id string, do func(user int64) error) error {
	user, err := httpx.ParseID(id)
	if err != nil {
		return account.ErrNoUser.Because(err)
	}
	return do(user)
}

// UserView is an account as operators see it.
type UserView struct {
	ID          string    `json:"id" example:"1000042"`
	Phone       string    `json:"phone,omitempty" doc:"In full for operators and admins, masked for viewers" example:"+8613800138000"`
	Email       string    `json:"email,omitempty" doc:"As the shop's own login has verified it; in full for operators and admins, masked for viewers" example:"li@shop.example"`
	Name        string    `json:"name,omitempty" example:"Li Wei"`
	Role        auth.Role `json:"role" enum:"shopper,viewer,operator,admin"`
	Status      string    `json:"status" enum:"active,disabled,erased" doc:"disabled: cannot log in; erased: deleted by its owner"`
	HasPassword bool      `json:"has_password" doc:"Whether one is set"`
	CreatedAt   string    `json:"created_at" format:"date-time"`
	UpdatedAt   string    `json:"updated_at" format:"date-time"`
}

// userView renders an account for the caller's role.
func userView(ctx context.Context, u account.User) UserView {
	phone, email := string(account.PhoneOf(u)), pg.ValueOr(u.Email, "")
	if !auth.From(ctx).Role.May(auth.Operator) {
		phone, email = account.PhoneOf(u).Masked(), account.MaskedEmail(email)
	}
	return UserView{
		ID: httpx.FormatID(u.ID), Phone: phone, Email: email, Name: u.Name, Role: auth.Role(u.Role), Status: u.Status, HasPassword: u.Password != nil,
		CreatedAt: httpx.Moment(u.CreatedAt), UpdatedAt: httpx.Moment(u.UpdatedAt),
	}
}

type adminListInput struct {
	httpx.ChangesInput
	ID     httpx.QueryID `query:"id" doc:"Only this account"`
	Phone  string        `query:"phone" maxLength:"32" doc:"The whole number; in E.164 the plus sign is written %2B"`
	Role   string        `query:"role" enum:"shopper,viewer,operator,admin" doc:"Only with this role"`
	Status string        `query:"status" enum:"active,disabled,erased" doc:"Only in this state"`
}

func (s *Service) adminList(ctx context.Context, in *adminListInput) (*httpx.PageOutput[UserView], error) {
	p := accountdb.ListUsersParams{ID: pg.Null(in.ID.N), Role: pg.Null(in.Role), Status: pg.Null(in.Status)}
	if in.Phone != "" {
		phone, err := s.searched(ctx, in.Phone)
		if err != nil {
			return nil, err
		}
		p.Phone = (*string)(&phone)
	}
	return httpx.PageOfChanges(in.ChangesInput, func(page httpx.PageInput) ([]account.User, error) {
		before, err := page.BeforeID()
		if err != nil {
			return nil, err
		}
		p.Before, p.Most = cmp.Or(before, math.MaxInt64), int32(page.Ask()) //nolint:gosec // a page
		rows, err := accountdb.New(s.DB).ListUsers(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("account: list users: %w", err)
		}
		return rows, nil
	}, func(u account.User) time.Time { return u.UpdatedAt },
		func(u account.User) UserView { return userView(ctx, u) }, func(u account.User) string { return httpx.FormatID(u.ID) })
}

// searchRule is more than a busy hour of customer service.
var searchRule = ratelimit.Rule{Name: "user-search", Count: 120, Per: guard.MiddleWindow}

// Searched returns the user with a phone, 0 for none, for an operator's search, which
// it counts and records. Its error is a fault.
func (s *Service) Searched(ctx context.Context, raw string) (int64, error) {
	phone, err := s.searched(ctx, raw)
	if err != nil {
		return 0, err
	}
	u, err := account.ByPhone(ctx, s.DB, phone)
	return u.ID, err
}

// searched parses the phone of an operator's search, counts it towards the operator's
// limit and records it.
func (s *Service) searched(ctx context.Context, raw string) (account.Phone, error) {
	who := auth.From(ctx)
	if !who.Role.May(auth.Operator) {
		return "", account.ErrSearch
	}
	phone, err := account.ParsePhone(raw)
	if err != nil {
		return "", err
	}
	if err := s.credentials.Guard.Take(ctx, ratelimit.Ask{Rule: searchRule, Key: ratelimit.UserKey(who.UserID)}); err != nil {
		return "", err
	}
	err = pg.InTx(ctx, s.DB, func(tx pgx.Tx) error {
		return audit.Note(ctx, tx, "user.search", "users", map[string]any{"phone": phone.Masked()})
	})
	return phone, account.Failed("record a search", err)
}

// UserDetail is an account with its logins.
type UserDetail struct {
	User   UserView          `json:"user"`
	Logins []login.LoginView `json:"logins" nullable:"false"`
}

func (s *Service) adminDetail(ctx context.Context, in *userInPath) (*httpx.Output[UserDetail], error) {
	var out UserDetail
	err := withUser(in.ID, func(user int64) error {
		u, err := s.ByID(ctx, user)
		if errors.Is(err, account.ErrNoAccount) {
			return account.ErrNoUser
		}
		if err != nil {
			return err
		}
		out.User = userView(ctx, u)
		out.Logins, err = s.credentials.Logins.List(ctx, user, 0)
		return err
	})
	return httpx.Answer(out), err
}
