package account

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/identity/account/accountevent"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/store/outbox"
	"stampede/platform/store/pg"
	"stampede/platform/store/pulse"
)

// Revoker ends access tokens before they expire; platform/identity/revoke implements
// it. A revocation made in a transaction takes effect when that commits.
type Revoker interface {
	Logins(ctx context.Context, tx pgx.Tx, why string, logins ...int64) error
	User(ctx context.Context, tx pgx.Tx, why string, user int64) error
	// UserEnded reports whether all logins of a user have ended since a time, by the rows.
	UserEnded(ctx context.Context, db pg.DB, user int64, issued time.Time) (bool, error)
	// Tell puts committed revocations into force on this instance.
	Tell(ctx context.Context)
}

// Store is the rows of accounts and their logins: what the parts that change accounts
// share, and what other modules ask about them. Safe for concurrent use.
type Store struct {
	DB       *pgxpool.Pool
	Pulse    *pulse.Pulse // nil: the loops ask themselves
	Revoke   Revoker
	SendsSMS bool // whether there is anything that takes SMS
	Config   Config
	Log      *slog.Logger
	Metrics  prometheus.Registerer
}

// User is an account's row.
type User = accountdb.AccountUser

// The states of an account.
const (
	Active   = "active"
	Disabled = "disabled"
	Erased   = "erased"
)

// Refusals about an account, after authentication.
var (
	ErrNoAccount = fault.New(fault.NotFound, "no-account", fault.T("There is no account for this login", "账号不存在"),
		fault.T("This user has no account here; a token can be minted without one.", "该用户在此没有账号；令牌可以不对应账号签发。"),
		fault.T("Ask the operator for an account, or register.", "请注册账号，或联系运营人员。"))
	ErrDisabled = fault.New(fault.Forbidden, "account-disabled", fault.T("This account is disabled", "账号已被停用"),
		fault.T("This account is disabled. Ask the shop's staff.", "该账号已被停用，请联系商家。"),
		fault.T("Ask the shop’s staff to enable the account.", "请联系商家工作人员恢复账号。"))
	// ErrElsewhere refuses what makes accounts and logins of shoppers here.
	ErrElsewhere = fault.New(fault.Forbidden, "login-elsewhere", fault.T("Please log in at the shop", "请前往商城登录"),
		fault.T("Shoppers have their accounts in the shop's own system.", "用户账号由商城自有系统管理。"),
		fault.T("Log in at login_url, and exchange the ID token that it gives at auth/exchange; the shop's pages do both.",
			"请在 login_url 登录，再用获得的 ID 令牌请求 auth/exchange；商店页面会自动完成这两步。"))
)

// ShoppersLogInHere returns nil if shoppers have accounts of this server, and else ErrElsewhere, which
// says where they log in. Staff log in here in any case.
func (s *Store) ShoppersLogInHere() error {
	at := s.Config.LoginURL
	if at == "" {
		return nil
	}
	return ErrElsewhere.With("login_url", at).Saying(
		fault.T("Shoppers have their accounts in the shop's own system, and log in at {url}.", "用户账号由商城自有系统管理，请前往 {url} 登录。", "url", at))
}

// ByID returns a user's row, or ErrNoAccount.
func (s *Store) ByID(ctx context.Context, user int64) (User, error) {
	u, err := accountdb.New(s.DB).UserByID(ctx, user)
	if errors.Is(err, pgx.ErrNoRows) {
		return u, ErrNoAccount
	}
	return u, Failed("read user", err)
}

// ByPhone returns the user with a phone, the zero User if there is none.
func ByPhone(ctx context.Context, db accountdb.DBTX, phone Phone) (User, error) {
	u, err := accountdb.New(db).UserByPhone(ctx, (*string)(&phone))
	if errors.Is(err, pgx.ErrNoRows) {
		return u, nil
	}
	return u, Failed("user of a phone", err)
}

// Create creates an account in tx with its event; any of phone, name and password may be
// "". It returns the zero User if the phone has an account already.
func Create(ctx context.Context, tx pgx.Tx, phone Phone, name, password string) (User, error) {
	u, err := accountdb.New(tx).CreateUser(ctx, accountdb.CreateUserParams{Phone: pg.Null(string(phone)), Name: name, Password: pg.Null(password)})
	if errors.Is(err, pgx.ErrNoRows) {
		return u, nil
	}
	if err == nil {
		_, err = outbox.Append(ctx, tx, accountevent.SubjectRegistered, accountevent.Registered{UserID: u.ID})
	}
	return u, Failed("create user", err)
}

// PhoneOf is a row's phone; the zero Phone for NULL.
func PhoneOf(u User) Phone { return Phone(pg.ValueOr(u.Phone, "")) }

// PasswordOf is a row's PHC string; empty for NULL.
func PasswordOf(u User) string { return pg.ValueOr(u.Password, "") }

// Contact is how a user is reached, each empty if there is none.
type Contact struct {
	Phone string // in E.164
	Email string
}

// ContactsOf returns how those of the users are reached who have a phone or an e-mail address.
func (s *Store) ContactsOf(ctx context.Context, users []int64) (map[int64]Contact, error) {
	rows, err := accountdb.New(s.DB).ContactsOf(ctx, users)
	if err != nil {
		return nil, fmt.Errorf("account: read phones and e-mail addresses: %w", err)
	}
	contacts := make(map[int64]Contact, len(rows))
	for _, r := range rows {
		contacts[r.ID] = Contact{r.Phone, r.Email}
	}
	return contacts, nil
}

// PhonesOf returns the phones of those of the users who have one, in E.164.
func (s *Store) PhonesOf(ctx context.Context, users []int64) (map[int64]string, error) {
	contacts, err := s.ContactsOf(ctx, users)
	phones := make(map[int64]string, len(contacts))
	for user, c := range contacts {
		if c.Phone != "" {
			phones[user] = c.Phone
		}
	}
	return phones, err
}

// OpenIDsOf returns the openids of those of the users who have linked WeChat, by the app's id.
func (s *Store) OpenIDsOf(ctx context.Context, users []int64) (map[int64]map[string]string, error) {
	rows, err := accountdb.New(s.DB).OpenIDsOf(ctx, users)
	if err != nil {
		return nil, fmt.Errorf("account: read openids: %w", err)
	}
	found := make(map[int64]map[string]string, len(rows))
	for _, r := range rows {
		if found[r.UserID] == nil {
			found[r.UserID] = map[string]string{}
		}
		found[r.UserID][r.AppID] = r.OpenID
	}
	return found, nil
}

// Unknown returns those of the users who have no account here.
func (s *Store) Unknown(ctx context.Context, users []int64) ([]int64, error) {
	known, err := accountdb.New(s.DB).KnownUsers(ctx, users)
	if err != nil {
		return nil, fmt.Errorf("account: look up users: %w", err)
	}
	slices.Sort(known)
	return slices.DeleteFunc(slices.Clone(users), func(user int64) bool {
		_, found := slices.BinarySearch(known, user)
		return found
	}), nil
}

// OpenIDOf returns a user's openid in a WeChat app, which WeChat payments need; ""
// when the user has none there.
func (s *Store) OpenIDOf(ctx context.Context, user int64, appID string) (string, error) {
	id, err := accountdb.New(s.DB).IdentityOfUser(ctx, accountdb.IdentityOfUserParams{UserID: user, AppID: appID})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return id, Failed("openid of a user", err)
}

// Owner parses a phone as people write it and returns it in E.164, with its user, or
// 0 if it has none. A text that is not a phone is a fault.
func (s *Store) Owner(ctx context.Context, raw string) (phone string, user int64, err error) {
	p, err := ParsePhone(raw)
	if err != nil {
		return "", 0, err
	}
	u, err := ByPhone(ctx, s.DB, p)
	return string(p), u.ID, err
}

// Disabled returns the users whose accounts are disabled.
func (s *Store) Disabled(ctx context.Context, tx pgx.Tx) ([]int64, error) {
	users, err := accountdb.New(tx).DisabledUsers(ctx)
	return users, Failed("disabled users", err)
}

// StaffPhones returns the phones of all accounts that are not shoppers', and of the first
// admin in the settings, who may not have one yet.
func (s *Store) StaffPhones(ctx context.Context) ([]string, error) {
	phones, err := accountdb.New(s.DB).StaffPhones(ctx)
	return append(phones, string(s.Config.FirstAdmin)), Failed("phones of staff", err)
}

// Failed passes nil and coded errors through and wraps any other error with the
// operation.
func Failed(operation string, err error) error {
	if err == nil {
		return nil
	}
	if _, coded := errors.AsType[*fault.Error](err); coded {
		return err
	}
	return fmt.Errorf("account: %s: %w", operation, err)
}

const (
	// tidyEvery is how long expired rows may stay; each run deletes a few.
	tidyEvery = 10 * time.Minute
	// tidyAtMost bounds one statement, so that it holds its row locks only briefly;
	// a run repeats it until fewer rows were deleted.
	tidyAtMost = 5_000
	// keepCodes is how long a code's row, which contains a phone, outlives the code:
	// enough for clock skew, and no longer because it has no further use.
	keepCodes = 10 * time.Minute
)

// Workers returns the loop that deletes old codes, logins and notices. Several instances
// may run it: each row is deleted once.
func (s *Store) Workers() []app.Worker {
	return []app.Worker{{
		Name: "account-housekeeping",
		Run:  app.Loop{Every: tidyEvery, Do: s.Tidy, Log: s.Log, Failed: "deleting old codes and logins failed"}.Run,
	}}
}

// Tidy deletes expired codes, and logins that ended or expired and notices that are
// from longer ago than Config.KeepEnded.
func (s *Store) Tidy(ctx context.Context) error {
	q := accountdb.New(s.DB)
	for _, part := range []struct {
		name   string
		forget func() (int64, error)
	}{
		{"codes", func() (int64, error) {
			return q.ForgetCodes(ctx, accountdb.ForgetCodesParams{KeepSeconds: keepCodes.Seconds(), Most: tidyAtMost})
		}},
		{"logins", func() (int64, error) {
			return q.ForgetLogins(ctx, accountdb.ForgetLoginsParams{KeepSeconds: s.Config.KeepEnded.Seconds(), Most: tidyAtMost})
		}},
		{"notices", func() (int64, error) {
			return q.ForgetNotices(ctx, accountdb.ForgetNoticesParams{KeepSeconds: s.Config.KeepEnded.Seconds(), Most: tidyAtMost})
		}},
	} {
		for {
			n, err := part.forget()
			if err != nil {
				return fmt.Errorf("account: forget %s: %w", part.name, err)
			}
			if n < tidyAtMost {
				break
			}
		}
	}
	return nil
}
