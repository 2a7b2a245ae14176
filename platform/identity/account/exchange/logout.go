package exchange

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/store/inbox"
)

var errLogout = fault.New(fault.BadRequest, "bad-logout-token", fault.T("This is not a logout by the shop's login", "不是商城登录发出的登出通知"),
	fault.T("The logout token is not a valid one of the shop's issuer for this sale.", "登出令牌不是商城签发方为本活动签发的有效令牌。"),
	fault.T("Post a fresh logout_token with sub, jti and events, and without a nonce, as a form.", "请以表单提交新的 logout_token，须含 sub、jti 和 events，且不含 nonce。"))

const (
	// logoutEvent makes a token one about a logout (OpenID Connect Back-Channel Logout 1.0, 2.4).
	logoutEvent = "http://schemas.openid.net/event/backchannel-logout"
	// logoutAge is how long after its issue a logout token is taken, whatever its own end:
	// issuers send it at once, and the inbox must still remember it when it comes again.
	logoutAge = 10 * time.Minute
)

type logoutInput struct {
	RawBody []byte `contentType:"application/x-www-form-urlencoded"`
}

// logout ends all logins of the user whom a logout token names. A subject that has never
// been here has none.
func (s *Service) logout(ctx context.Context, in *logoutInput) (*struct{}, error) {
	if s.issuer == nil {
		return nil, errNoIssuer
	}
	form, err := url.ParseQuery(string(in.RawBody))
	if err != nil {
		return nil, errLogout.Because(err)
	}
	subject, id, err := s.issuer.logout(ctx, form.Get("logout_token"))
	if err := s.refused(ctx, err, errLogout); err != nil {
		return nil, err
	}
	return nil, s.deps.Store.InTx(ctx, "logout at the shop", func(tx pgx.Tx) error {
		q := accountdb.New(tx)
		if err := q.LockSubject(ctx, accountdb.LockSubjectParams{Issuer: s.issuer.set.Issuer, Subject: subject}); err != nil {
			return err
		}
		fresh, err := inbox.Fresh(ctx, tx, "logout", []ids.ID{id})
		if err != nil || !fresh[id] {
			return err
		}
		user, err := q.UserOfSubject(ctx, accountdb.UserOfSubjectParams{Issuer: s.issuer.set.Issuer, Subject: subject})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return account.Locked(ctx, user, func(tx pgx.Tx, _ account.User) error {
			_, err := s.deps.Store.EndAll(ctx, tx, user, account.EndedAtShop)
			return err
		})(tx)
	})
}

// logout returns whose logins a valid logout token ends, and the number under which the
// inbox knows the token: its jti, hashed, at the time of its issue.
func (i *issuer) logout(ctx context.Context, raw string) (subject string, id ids.ID, err error) {
	token, claims, err := i.read(ctx, raw)
	if err != nil {
		return "", id, err
	}
	events, _ := claims["events"].(map[string]any)
	_, about := events[logoutEvent].(map[string]any)
	_, nonce := claims["nonce"]
	jti, _ := claims["jti"].(string)
	age := i.now().Sub(token.IssuedAt)
	switch {
	case !about:
		return "", id, errors.New("exchange: the token is not about a logout")
	case nonce:
		return "", id, errors.New("exchange: a token with a nonce is no logout token")
	case jti == "" || token.Subject == "":
		return "", id, errors.New("exchange: a logout token has a jti and a sub")
	case age > logoutAge || age < -skew:
		return "", id, errors.New("exchange: the logout token was not issued just now")
	}
	sum := sha256.Sum256([]byte(token.Issuer + "\x1f" + jti))
	copy(id[:], sum[:])
	issued := token.IssuedAt.UnixMilli()
	for n := range 6 { // as ids have their time
		id[n] = byte(issued >> (40 - 8*n))
	}
	return token.Subject, id, nil
}
