package guard

import (
	"context"
	"errors"
	"strings"
	"time"

	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/humancheck"
)

// The windows of the limits. The first bounds the rate of online password guessing;
// the others bound the cost of SMS.
const (
	ShortWindow  = time.Minute
	MiddleWindow = time.Hour
	LongWindow   = 24 * time.Hour
	// FailureWindow is how long failures count towards a human check: as long as an
	// attack continues, but not after a lunch break.
	FailureWindow = 15 * time.Minute
)

// Login admits an attempt that no limit of its phone guards: by code, whose attempts are
// bounded, or through WeChat, with the phone "". creates says that it may create an
// account.
func (g *Guard) Login(ctx context.Context, phone account.Phone, from Caller, creates bool) error {
	counts := g.failures(phone, from)
	if creates {
		counts = append(counts, registrations(from)...)
	}
	return g.admit(ctx, humancheck.PurposeLogin, from, counts, g.loginAsks(from))
}

// Registration admits a registration, and counts it.
func (g *Guard) Registration(ctx context.Context, from Caller) error {
	err := g.admit(ctx, humancheck.PurposeRegister, from, registrations(from), append(g.loginAsks(from), g.createAsk(from)))
	if err == nil {
		g.Created(ctx, from)
	}
	return err
}

// Create limits the accounts that first logins create from an address.
func (g *Guard) Create(ctx context.Context, from Caller) error { return g.Take(ctx, g.createAsk(from)) }

// manyAddresses is how many addresses may use up their attempts on one phone: it
// bounds a guess that is spread over addresses, and none of them alone reaches it.
const manyAddresses = 4

// Password admits a login by password. It also limits the attempts on a phone's password,
// from one address and from all. Codes have a separate limit, so that an attacker who
// guesses a password does not lock the phone's holder out: login by code stays possible,
// and a known device has attempts of its own.
func (g *Guard) Password(ctx context.Context, phone account.Phone, from Caller) error {
	key, n := g.phoneKey(phone), g.limits.LoginPerPhone
	asks := append(g.loginAsks(from),
		ratelimit.Ask{Rule: ratelimit.Rule{Name: "login-phone-address", Count: n, Per: ShortWindow}, Key: key + ratelimit.AddrKey(from.Address)},
		ratelimit.Ask{Rule: ratelimit.Rule{Name: "login-phone", Count: manyAddresses * n, Per: ShortWindow}, Key: key},
	)
	known := append(g.loginAsks(from),
		ratelimit.Ask{Rule: ratelimit.Rule{Name: "login-device", Count: n, Per: ShortWindow}, Key: g.deviceKey(phone, from)})
	return g.admitDevice(ctx, humancheck.PurposeLogin, from, g.failures(phone, from), phone, asks, known)
}

// Code admits a request for a code, for each purpose separately: requests for one do not
// use up another's. login says that it is for logins.
func (g *Guard) Code(ctx context.Context, phone account.Phone, purpose string, login bool, from Caller) error {
	counts := append(registrations(from), g.codesSent(phone, from)...)
	asks := g.codeAsks("sms-phone", g.phoneKey(phone)+":"+purpose, login, from)
	// Strangers who request codes for the phone do not use up those of a known device.
	known := g.codeAsks("sms-device", g.deviceKey(phone, from)+":"+purpose, login, from)
	return g.admitDevice(ctx, humancheck.PurposeSMS, from, counts, phone, asks, known)
}

func (g *Guard) codeAsks(name, key string, login bool, from Caller) []ratelimit.Ask {
	hour, day := g.limits.SMSPerPhoneHour, g.limits.SMSPerPhoneDay
	if !login {
		hour, day = (hour+1)/2, (day+1)/2 // needed rarely; a flood for all purposes stays within three days' codes
	}
	return []ratelimit.Ask{
		// A minute between two codes lets the first one arrive.
		{Rule: ratelimit.Rule{Name: name + "-minute", Count: min(hour, 1), Per: ShortWindow}, Key: key},
		{Rule: ratelimit.Rule{Name: name + "-hour", Count: hour, Per: MiddleWindow}, Key: key},
		{Rule: ratelimit.Rule{Name: name + "-day", Count: day, Per: LongWindow}, Key: key},
		{Rule: ratelimit.Rule{Name: "sms-address", Count: g.limits.SMSPerAddress, Per: MiddleWindow}, Key: ratelimit.AddrKey(from.Address)},
	}
}

// Own limits how often a logged-in user may prove something: a stolen access
// token must not allow the password to be guessed.
func (g *Guard) Own(ctx context.Context, user int64) error {
	return g.Take(ctx, ratelimit.Ask{
		Rule: ratelimit.Rule{Name: "proof-user", Count: g.limits.LoginPerPhone, Per: ShortWindow}, Key: ratelimit.UserKey(user),
	})
}

// loginAsks limits login attempts from an address, by any method.
func (g *Guard) loginAsks(from Caller) []ratelimit.Ask {
	return []ratelimit.Ask{{
		Rule: ratelimit.Rule{Name: "login-address", Count: g.limits.LoginPerAddress, Per: ShortWindow}, Key: ratelimit.AddrKey(from.Address),
	}}
}

// createAsk limits the accounts that are created from an address, by any method.
func (g *Guard) createAsk(from Caller) ratelimit.Ask {
	return ratelimit.Ask{
		Rule: ratelimit.Rule{Name: "register-address", Count: g.limits.RegisterPerAddress, Per: MiddleWindow}, Key: ratelimit.AddrKey(from.Address),
	}
}

// admit guards every attempt: first the limits as cached in memory, then the human
// check if the record requires one, then the limits themselves. In this order a
// client neither solves a challenge only to be refused by a limit, nor uses up a
// limit only to be sent a challenge.
func (g *Guard) admit(ctx context.Context, purpose string, from Caller, counts []count, asks []ratelimit.Ask) error {
	if err := g.Limits.Look(asks...).Err(); err != nil {
		return err
	}
	if err := g.checkHuman(ctx, purpose, from, counts); err != nil {
		return err
	}
	return g.Take(ctx, asks...)
}

// admitDevice is admit for what strangers can use up for a phone. If they did, a
// device that the phone's user has logged in on passes by known, its own limits; the
// signed cookie proves it, not the id that a client states.
func (g *Guard) admitDevice(ctx context.Context, purpose string, from Caller, counts []count, phone account.Phone, asks, known []ratelimit.Ask) error {
	spared := func(err error) bool {
		refused, limited := errors.AsType[*ratelimit.Refused](err)
		return limited && from.proved() && strings.Contains(refused.Decision.Rule.Name, "-phone")
	}
	err := g.Limits.Look(asks...).Err()
	if err != nil && !spared(err) {
		return err
	}
	if err := g.checkHuman(ctx, purpose, from, counts); err != nil {
		return err
	}
	if err == nil {
		err = g.Take(ctx, asks...)
	}
	if !spared(err) {
		return err
	}
	if refusal := g.Take(ctx, known...); refusal != nil {
		return refusal // also bounds how often the database is asked
	}
	knows, failed := accountdb.New(g.Store.DB).KnowsDevice(ctx, accountdb.KnowsDeviceParams{Phone: (*string)(&phone), Browser: from.Origin.Device[:]})
	if failed != nil || knows {
		return account.Failed("known device", failed)
	}
	return err
}

// Take returns the refusal of the first exhausted rule.
func (g *Guard) Take(ctx context.Context, asks ...ratelimit.Ask) error {
	d, err := g.Limits.Take(ctx, asks...)
	if err != nil {
		return account.Failed("limits", err)
	}
	return d.Err()
}

// IsRefused reports whether an error is the refusal of a limit.
func IsRefused(err error) bool {
	_, refused := errors.AsType[*ratelimit.Refused](err)
	return refused
}
