package login

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/store/pg"
)

// refreshGrace is how long a used refresh token may be repeated and gets the same
// successor: a shopper whose answer was lost in a tunnel, or whose two tabs refresh
// simultaneously, must not be logged out. It covers a client's timeout and one
// retry. A thief gains nothing: thief and shopper then hold the same successor, and
// the one who uses it second, after the grace, ends the login.
const refreshGrace = 10 * time.Second

// refreshesPerMinute of one login let a few tabs renew at the same moment, and each
// repeat it. A refresh locks the user's row.
const refreshesPerMinute = 30

// Why a refresh token is refused.
var (
	errBadRefresh = fault.New(fault.Unauthenticated, "bad-refresh-token", fault.T("Please log in again", "登录已失效，请重新登录"),
		fault.T("The refresh token is not valid here, or its login has ended; log in again.", "刷新令牌无效或登录已结束，请重新登录。"),
		fault.T("Log in again.", "请重新登录。"))
	errReused = fault.New(fault.Unauthenticated, "refresh-reused",
		fault.T("Please log in again", "登录存在风险已退出，请重新登录"),
		fault.T("This refresh token was already used, so it may have been copied. The login was ended; log in again.",
			"该刷新令牌已被使用，可能已泄露；登录已结束，请重新登录。"),
		fault.T("Log in again, and change the password if it was not you.", "请重新登录；若非本人操作，请修改密码。"))
)

// Refresh exchanges a refresh token for new tokens. device must be the id stated at
// login. A token is valid for one use; repeated within refreshGrace it gets the same
// successor, and repeated later, or after its successor was used, it ends the login.
// A blacklisted user is refused but keeps the token until the entry ends.
func (s *Service) Refresh(ctx context.Context, token, device string, from netip.Addr) (Tokens, error) {
	claim, ok := s.read(token)
	if !ok {
		return Tokens{}, errBadRefresh
	}
	login, generation := claim.login, claim.generation
	err := s.guard.Take(ctx, ratelimit.Ask{
		Rule: ratelimit.Rule{Name: "refresh-login", Count: refreshesPerMinute, Per: guard.ShortWindow}, Key: "l:" + strconv.FormatInt(login, 10),
	})
	if err != nil {
		return Tokens{}, err
	}
	var out Tokens
	var reused bool
	err = pg.InTx(ctx, s.store.DB, func(tx pgx.Tx) error {
		out, reused = Tokens{}, false // drops the result of a rolled-back attempt
		q := accountdb.New(tx)
		owner, err := q.OwnerOfLogin(ctx, login)
		if err != nil {
			return err
		}
		// The user is locked before the login, as everywhere. With both locked, a
		// change of role or a disabling happens entirely before or after the
		// refresh.
		u, err := q.LockUser(ctx, owner)
		if err != nil {
			return err
		}
		l, err := q.LockLogin(ctx, accountdb.LockLoginParams{ID: login, GraceSeconds: refreshGrace.Seconds()})
		if err != nil {
			return err
		}
		switch {
		case !bytes.Equal(claim.salt, l.Salt),
			l.EndedAt != nil, l.Expired, u.Status != account.Active, l.DeviceID != device,
			l.How == ByExchange && u.Role != string(auth.Shopper): // one who became staff logs in anew
			return errBadRefresh
		}
		again := generation == l.Generation-1 && l.JustRotated
		if generation == l.Generation || again {
			if err := s.guard.KeepOut(ByRefresh, u.ID, account.PhoneOf(u), l.DeviceID, from); err != nil {
				return err
			}
		}
		role, err := s.factors.RoleOf(ctx, tx, u)
		if err != nil {
			return err
		}
		who := auth.Principal{UserID: u.ID, Role: role, Login: l.ID, Device: l.DeviceID}
		switch {
		case generation == l.Generation:
			next, err := q.RotateLogin(ctx, accountdb.RotateLoginParams{
				ID: login, Address: addressOf(from), LifetimeSeconds: s.store.Config.RefreshLifetime.Seconds(), MostSeconds: loginMost.Seconds(),
			})
			if err != nil {
				return err
			}
			out, err = s.mint(who, s.refreshToken(login, next.Generation, l.Salt), next.ExpiresAt)
			return err
		case again:
			out, err = s.mint(who, s.refreshToken(login, l.Generation, l.Salt), l.ExpiresAt)
			return err
		default:
			// A number above the current one is treated the same way: it occurs only
			// in a database restored from a backup, where one of two holders is not
			// the shopper either.
			reused = true
			return s.store.EndLogin(ctx, tx, u.ID, login, account.EndedByReuse)
		}
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Tokens{}, errBadRefresh
	case err != nil:
		return Tokens{}, account.Failed("refresh", err)
	case reused:
		s.store.Revoke.Tell(ctx)
		s.reused.Inc()
		s.store.Log.WarnContext(ctx, "refresh token reused, login ended", "login", login)
		return Tokens{}, errReused
	}
	return out, nil
}

// ErrProof asks for a proof beside the access token.
var ErrProof = fault.New(fault.Forbidden, "proof-required", fault.T("Confirm your identity", "请先验证身份"),
	fault.T("Prove that it is you with password, code (sent by auth/sms-codes with the purpose erase), wechat_code or token.",
		"请用 password、code（由 auth/sms-codes 以 erase 用途发送）、wechat_code 或 token 验证身份。"),
	fault.T("Send the current password, an SMS code, or a token of the shop's own login.", "请提供当前密码、短信验证码或商城登录的令牌。"))

var errNotHeld = ErrProof.Saying(
	fault.T("Send the refresh token of this login. An access token alone opens no other way to log in.",
		"请携带本次登录的刷新令牌；仅凭访问令牌不能添加其他登录方式。"))

// Holds returns nil if a refresh token is the current one of the principal's login, or
// the one before within refreshGrace. An access token, which travels with every request
// and may have been copied, must not suffice to open another login or a way to one. The
// refresh token stays unused.
func (s *Service) Holds(ctx context.Context, p auth.Principal, token string) error {
	claim, ok := s.read(token)
	if !ok || claim.login != p.Login {
		return errNotHeld
	}
	l, err := accountdb.New(s.store.DB).LoginState(ctx, accountdb.LoginStateParams{ID: claim.login, GraceSeconds: refreshGrace.Seconds()})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errNotHeld
	case err != nil:
		return fmt.Errorf("account: read login: %w", err)
	case !l.Live, l.UserID != p.UserID, !bytes.Equal(claim.salt, l.Salt),
		claim.generation != l.Generation && (claim.generation != l.Generation-1 || !l.JustRotated):
		return errNotHeld
	}
	return nil
}

// refreshClaim is what a refresh token says.
type refreshClaim struct {
	login      int64
	generation int32
	salt       []byte
}

// A refresh token consists of the login's id, the token's number within the login,
// the login's salt, and a MAC over these. Computing it rather than storing it has
// three advantages: a lost answer can be repeated, a used token is recognized for as
// long as its login lives, and a login is one row.
const (
	refreshPrefix     = "rt_"             // identifies it to people and secret scanners; no JWT begins with it
	refreshHeadBytes  = 8 + 4 + saltBytes // login, number, salt
	refreshTokenBytes = refreshHeadBytes + sha256.Size
)

// refreshToken makes the token with a given number of a login.
func (s *Service) refreshToken(login int64, generation int32, salt []byte) string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(login))
	raw = binary.BigEndian.AppendUint32(raw, uint32(generation))
	raw = append(raw, salt...)
	return refreshPrefix + base64.RawURLEncoding.EncodeToString(append(raw, s.keys.MAC(raw)...))
}

// read returns what a refresh token says if any of the keys made it. It needs no
// store, so that a made-up token costs neither a query nor a lock.
func (s *Service) read(token string) (c refreshClaim, ok bool) {
	text, ok := strings.CutPrefix(token, refreshPrefix)
	if !ok || len(text) != base64.RawURLEncoding.EncodedLen(refreshTokenBytes) { // the decoder skips line breaks
		return c, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != refreshTokenBytes || !s.keys.Made(raw[refreshHeadBytes:], raw[:refreshHeadBytes]) {
		return c, false
	}
	c = refreshClaim{int64(binary.BigEndian.Uint64(raw)), int32(binary.BigEndian.Uint32(raw[8:])), raw[12:refreshHeadBytes]}
	return c, c.login > 0 && c.generation > 0
}
