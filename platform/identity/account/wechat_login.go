package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/account/wechat"
	"stampede/platform/identity/humancheck"
	"stampede/platform/identity/sms"
	"stampede/platform/store/pg"
)

var (
	errNoWeChat = wechat.ErrUnavailable.Saying(
		fault.T("WeChat login is not available here; log in by phone.", "此处不支持微信登录，请使用手机号登录。"))
	errWeChatTaken = fault.New(fault.Conflict, "wechat-taken", fault.T("This WeChat account is in use", "该微信已绑定其他账号"),
		fault.T("This WeChat account belongs to another account of the shop. Log in with it instead.",
			"该微信已绑定其他账号，请直接用它登录。"),
		fault.T("Log in with this WeChat account instead.", "请直接使用该微信登录。"))
	errWeChatLinked = fault.New(fault.Conflict, "wechat-linked",
		fault.T("Your account has another WeChat account", "您的账号已绑定其他微信"),
		fault.T("Your account has another WeChat account already.", "您的账号已绑定其他微信。"),
		fault.T("Log in with the WeChat account that is linked, or use another account of the shop.",
			"请使用已绑定的微信登录，或换用其他账号。"))
)

// LoginByWeChat logs in with a code that WeChat gave to the client. An unknown
// WeChat account gets an account; one that is known from another app of the shop, by
// its union id, gets the same account. state and cookie show that this client asked for
// the code, see useState.
func (s *Service) LoginByWeChat(ctx context.Context, code, state, cookie string, d Device, from caller) (Tokens, error) {
	if s.deps.WeChat == nil {
		return Tokens{}, errNoWeChat
	}
	if err := s.keepOut(byWeChat, 0, "", d); err != nil {
		return Tokens{}, err
	}
	if err := s.admit(ctx, humancheck.PurposeLogin, from, append(s.loginFailures("", from), s.registrations(from)...), s.loginAsks(from)); err != nil {
		return Tokens{}, err
	}
	if err := s.useState(ctx, state, cookie); err != nil {
		return Tokens{}, err
	}
	who, err := s.deps.WeChat.Exchange(ctx, code)
	if err != nil {
		if errors.Is(err, wechat.ErrBadCode) {
			s.note(ctx, failureWindow, s.loginFailures("", from))
		}
		return Tokens{}, asFault("wechat", err)
	}
	var out Tokens
	created := false
	err = s.inTx(ctx, "log in by wechat", func(tx pgx.Tx) error {
		user, found, err := s.ownerOf(ctx, tx, who)
		if err != nil {
			return err
		}
		if created = !found; created {
			u, err := newUser(ctx, tx, accountdb.CreateUserParams{})
			if err != nil {
				return fmt.Errorf("account: create user: %w", err)
			}
			user = u.ID
			if err := s.take(ctx, s.registerAsk(from)); err != nil {
				return err
			}
		}
		if err := s.putIdentity(ctx, tx, user, who); err != nil {
			return err
		}
		out, err = s.OpenLogin(ctx, tx, user, d, byWeChat)
		return err
	})
	if err != nil {
		return Tokens{}, err
	}
	if created {
		s.note(ctx, middleWindow, s.registrations(from))
	}
	return out, nil
}

// LinkWeChat adds a WeChat account to the user's account as a way to log in.
// Repeating it does nothing.
func (s *Service) LinkWeChat(ctx context.Context, user int64, code, state, cookie string) error {
	if s.deps.WeChat == nil {
		return errNoWeChat
	}
	if err := s.takeOwn(ctx, user); err != nil {
		return err
	}
	if err := s.useState(ctx, state, cookie); err != nil {
		return err
	}
	who, err := s.deps.WeChat.Exchange(ctx, code)
	if err != nil {
		return asFault("wechat", err)
	}
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		if _, err := lockActive(ctx, tx, user); err != nil {
			return err
		}
		owner, found, err := s.ownerOf(ctx, tx, who)
		if err != nil {
			return err
		}
		if found && owner != user {
			return errWeChatTaken
		}
		if err := s.putIdentity(ctx, tx, user, who); err != nil || found {
			return err
		}
		return s.noteTo(ctx, tx, user, sms.NoteAccess)
	})
	return asFault("link wechat", err)
}

// ownerOf finds the user of a WeChat account and locks it until tx ends, so that two
// concurrent transactions cannot both find no user.
func (s *Service) ownerOf(ctx context.Context, tx pgx.Tx, who wechat.Identity) (user int64, found bool, err error) {
	q := accountdb.New(tx)
	// Union before app, in every transaction: a person's accounts in two apps may
	// arrive concurrently.
	if who.UnionID != "" {
		if err := q.LockUnion(ctx, who.UnionID); err != nil {
			return 0, false, fmt.Errorf("account: lock wechat account: %w", err)
		}
	}
	if err := q.LockIdentity(ctx, accountdb.LockIdentityParams{AppID: who.AppID, OpenID: who.OpenID}); err != nil {
		return 0, false, fmt.Errorf("account: lock wechat account: %w", err)
	}
	user, err = q.UserOfIdentity(ctx, accountdb.UserOfIdentityParams{AppID: who.AppID, OpenID: who.OpenID})
	if errors.Is(err, pgx.ErrNoRows) && who.UnionID != "" {
		user, err = q.UserOfUnion(ctx, &who.UnionID)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("account: user of a wechat account: %w", err)
	}
	return user, true, nil
}

// putIdentity stores a WeChat account as the user's, with a union id that was not
// known before.
func (s *Service) putIdentity(ctx context.Context, tx pgx.Tx, user int64, who wechat.Identity) error {
	var union *string
	if who.UnionID != "" {
		union = &who.UnionID
	}
	owner, err := accountdb.New(tx).PutIdentity(ctx, accountdb.PutIdentityParams{AppID: who.AppID, OpenID: who.OpenID, UnionID: union, UserID: user})
	if pg.ViolatesUnique(err, "one_identity_per_app") {
		return errWeChatLinked
	}
	if err != nil {
		return fmt.Errorf("account: store wechat account: %w", err)
	}
	if owner != user {
		return errWeChatTaken
	}
	return nil
}
