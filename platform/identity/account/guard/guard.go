// Package guard decides whether an attempt to log in may be made at all.
//
// The blacklist (platform/identity/blacklist) is checked first, by phone, device and
// address; by user it is checked once the user is authenticated. Then every attempt
// passes limits by phone and address (platform/edge/ratelimit) and a human check
// (platform/identity/humancheck): for every code, and for the other attempts when the
// record of failures, codes and registrations exceeds a budget (record.go). Its work
// doubles as the record does. An address's record is that of its networks, up to an
// IPv6 /48; this machine and trusted proxies have none.
//
// What strangers do with a phone's number locks its holder out neither of password nor
// of code: attempts count per phone and address, codes per purpose, and a device that
// the user has logged in on before has limits of its own. The device is proved by its
// signed cookie (httpx.DeviceCookie), which codes and logins set; the id that a client
// states is a label, and a client that wants another one states another one.
//
// Redis stores phones only as keyed hashes.
package guard

import (
	"context"
	"encoding/hex"
	"net/netip"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account"
	"stampede/platform/identity/humancheck"
)

// HumanChecker checks solutions; platform/identity/humancheck implements it.
type HumanChecker interface {
	// Public is the kind of check that logins require; None requires none.
	Public() humancheck.Kind
	Check(ctx context.Context, kind humancheck.Kind, sub humancheck.Subject, solution string) error
}

// Blacklist refuses listed callers; platform/identity/blacklist implements it.
type Blacklist interface {
	// Refuse returns the refusal if any of the given values is listed, else nil;
	// zero values are not looked up. way names the attempted operation. It reads
	// memory only.
	Refuse(way string, user int64, phone, device string, from netip.Addr) error
	// Change runs fn in a transaction that disables or enables an account, and
	// announces it to every instance after the commit.
	Change(ctx context.Context, fn func(tx pgx.Tx) error) error
	// KeepPhone keeps a listed user whose account is erased in tx from coming back with
	// the same phone.
	KeepPhone(ctx context.Context, tx pgx.Tx, user int64, phone string) error
}

// Deps are the guard's dependencies.
type Deps struct {
	Store     *account.Store
	Redis     redis.UniversalClient // for the record
	Limits    *ratelimit.Limiter
	Human     HumanChecker // nil: no human checks
	Blacklist Blacklist    // nil: no blacklist
}

// Guard guards attempts. Safe for concurrent use.
type Guard struct {
	Deps
	limits account.Limits
	tag    []byte // the key of tags
}

// New returns a guard with the limits in the configuration.
func New(deps Deps) *Guard {
	cfg := deps.Store.Config
	return &Guard{Deps: deps, limits: cfg.Limits, tag: cfg.Keys("account-limit-tag")[0]}
}

// KeepOut refuses a caller who is listed by user, phone, device or address.
func (g *Guard) KeepOut(way string, user int64, phone account.Phone, device string, from netip.Addr) error {
	if g.Blacklist == nil {
		return nil
	}
	return g.Blacklist.Refuse(way, user, string(phone), device, from)
}

// Caller is what is known of the client that makes an attempt.
type Caller struct {
	Address  netip.Addr
	Origin   ratelimit.Origin // whose record counts, and the device that is proved
	Solution string           // to a human check; empty when none was sent
}

// proved reports whether the caller has the signed cookie of a device.
func (c Caller) proved() bool { return c.Origin.Device != [16]byte{} }

// device is the id of that device as text.
func (c Caller) device() string { return hex.EncodeToString(c.Origin.Device[:]) }

// SolutionHeader carries the solution of a human check; inputs embed it. It is
// exported because huma requires that of embedded fields.
type SolutionHeader struct {
	HumanCheck string `header:"Human-Check" maxLength:"4096" doc:"The solution of a human check, when one is required"`
}

// Caller returns the caller of the request in ctx.
func (h SolutionHeader) Caller(ctx context.Context) Caller {
	return Caller{Address: httpx.ClientAddr(ctx), Origin: httpx.Origin(ctx), Solution: h.HumanCheck}
}

// tagBytes is enough to tell phones apart in Redis: a collision of two has
// probability 2^-64.
const tagBytes = 8

// phoneKey identifies a phone in the keys of limits, which must not contain the
// number.
func (g *Guard) phoneKey(phone account.Phone) string {
	return "p:" + hex.EncodeToString(auth.MAC(g.tag, []byte(phone))[:tagBytes])
}

// deviceKey identifies a phone's device in the keys of limits.
func (g *Guard) deviceKey(phone account.Phone, from Caller) string {
	return g.phoneKey(account.Phone(string(phone) + "\x00" + from.device()))
}
