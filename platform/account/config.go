package account

import (
	"errors"
	"fmt"
	"runtime"
	"time"
	"unicode/utf8"

	"stampede/platform/account/password"
	"stampede/platform/sms"
)

// Config is how accounts behave. FromSettings fills it from the server's
// settings.
type Config struct {
	// SigningKey is the server's, PreviousKeys those that are being replaced; this
	// package derives its own keys from them.
	SigningKey   []byte
	PreviousKeys [][]byte
	// AccessLifetime is how long an access token is good. Defaults to 15 min:
	// short, because an instance that knows of no revocation would take it.
	AccessLifetime time.Duration
	// RefreshLifetime is how long a login lasts without being used. Defaults to
	// 30 days, from one campaign to the next.
	RefreshLifetime time.Duration
	// Password are the costs of a hash, PasswordParallel how many run at once.
	// Default to OWASP's, and one for each core: more at once take memory and
	// finish no sooner.
	Password         password.Params
	PasswordParallel int
	// FirstAdmin becomes an admin at its next login while the shop has none.
	FirstAdmin Phone
	// Limits are what a phone and an address may do.
	Limits Limits
	// SMSReach is where SMS are sent to. Defaults to +86, of which ParsePhone takes
	// mobile numbers only.
	SMSReach sms.Reach
	// SMSSignature is the shop's name at the head of each SMS.
	SMSSignature string
	// KeepEnded is how long a login is remembered after its end. Defaults to
	// 30 days: long enough to ask what happened, and no longer.
	KeepEnded time.Duration
}

// mostSignature is what China's carriers take between the brackets 【】.
const mostSignature = 16

// Limits are counts; 0 turns one off. The windows are fixed with the reasons in
// limits.go.
type Limits struct {
	LoginPerPhone, LoginPerAddress             int // logins by password, a minute
	SMSPerPhoneHour, SMSPerPhoneDay            int // codes
	SMSPerAddress                              int // codes, an hour
	RegisterPerAddress                         int // registrations, an hour
	CheckAfterFailures, CheckAfterAddress      int // failed logins in 15 min before a human check is asked for
	CheckAfterCodes, CheckAfterAddressRequests int // codes, or registrations, in an hour before one is
}

// DefaultConfig returns the defaults; SigningKey has to be set by the caller.
func DefaultConfig() Config {
	return Config{
		AccessLifetime: 15 * time.Minute, RefreshLifetime: 30 * 24 * time.Hour,
		Password: password.OWASP, PasswordParallel: runtime.GOMAXPROCS(0),
		Limits: Limits{
			LoginPerPhone: 5, LoginPerAddress: 30, SMSPerPhoneHour: 5, SMSPerPhoneDay: 10, SMSPerAddress: 20, RegisterPerAddress: 5,
			CheckAfterFailures: 3, CheckAfterAddress: 10, CheckAfterCodes: 2, CheckAfterAddressRequests: 3,
		},
		SMSReach: sms.Reach{inChina}, SMSSignature: "Stampede", KeepEnded: 30 * 24 * time.Hour,
	}
}

// Validate returns every fault of the configuration in one error.
func (c Config) Validate() error {
	var errs []error
	if len(c.SigningKey) == 0 {
		errs = append(errs, errors.New("account: a signing key is needed"))
	}
	if c.AccessLifetime < time.Minute || c.AccessLifetime > 24*time.Hour {
		errs = append(errs, fmt.Errorf("account: an access token lives between 1m and 24h, not %s", c.AccessLifetime))
	}
	if c.RefreshLifetime < c.AccessLifetime || c.RefreshLifetime > loginMost {
		errs = append(errs, fmt.Errorf("account: a refresh token lives between %s and %s, not %s", c.AccessLifetime, loginMost, c.RefreshLifetime))
	}
	if n := utf8.RuneCountInString(c.SMSSignature); n < 1 || n > mostSignature {
		errs = append(errs, fmt.Errorf("account: an SMS is signed with 1 to %d characters, not %d", mostSignature, n))
	}
	if c.FirstAdmin != "" && !c.SMSReach.Covers(string(c.FirstAdmin)) {
		errs = append(errs, fmt.Errorf("account: the phone of --first-admin-phone gets no SMS, which go to %s only: add its prefix to --sms-countries", c.SMSReach))
	}
	if c.KeepEnded <= 0 {
		errs = append(errs, errors.New("account: ended logins are kept for a positive time"))
	}
	if c.PasswordParallel < 1 {
		errs = append(errs, errors.New("account: at least 1 password hash at once"))
	}
	return errors.Join(append(errs, c.Password.Validate())...)
}
