package account

import (
	"errors"
	"fmt"
	"time"

	"stampede/platform/identity/account/password"
	"stampede/platform/identity/sms"
)

// Settings are what an operator may set about accounts and logins. The windows of
// the limits are fixed with the reasons in limits.go.
type Settings struct {
	AccessLifetime   time.Duration `default:"15m" env:"STAMPEDE_ACCESS_LIFETIME" help:"How long an access token is valid; short, because an instance that has not heard of a revocation takes it until then." min:"1m" max:"24h" rare:""`
	RefreshLifetime  time.Duration `default:"720h" env:"STAMPEDE_REFRESH_LIFETIME" help:"How long a login lasts without being used; 720h are 30 days." max:"4320h" rare:""`
	FirstAdminPhone  string        `default:"" env:"STAMPEDE_FIRST_ADMIN_PHONE" help:"Phone that becomes an admin at its next login while the shop has none, e.g. +8613800138000." secret:""`
	PasswordCost     password.Cost `default:"interactive" enum:"interactive,moderate,sensitive" env:"STAMPEDE_PASSWORD_COST" help:"What a password hash (argon2id) costs an attacker and the server: interactive (19 MiB of memory, 2 passes), moderate (64 MiB, 3) or sensitive (256 MiB, 3). Passwords are hashed again at login when this changes." rare:""`
	PasswordParallel int           `default:"0" env:"STAMPEDE_PASSWORD_PARALLEL" help:"Password hashes at once, each with its memory; a login that finds all busy waits a moment, then is refused. 0: one for each core." min:"0" max:"1000" rare:""`

	Limits `embed:""`
}

// Limits are counts; 0 turns one off.
type Limits struct {
	LoginPerPhone      int `default:"5" env:"STAMPEDE_LOGIN_PER_PHONE" help:"Logins by password that one phone may try in a minute; 0: no limit." min:"0" max:"1000000" rare:""`
	LoginPerAddress    int `default:"30" env:"STAMPEDE_LOGIN_PER_ADDRESS" help:"Logins that one address may try in a minute; 0: no limit." min:"0" max:"1000000" rare:""`
	SMSPerPhoneHour    int `name:"sms-per-phone-hour" default:"5" env:"STAMPEDE_SMS_PER_PHONE_HOUR" help:"SMS codes for one phone in an hour, with a minute between two; 0: no limit." group:"SMS:" min:"0" max:"1000000" rare:""`
	SMSPerPhoneDay     int `name:"sms-per-phone-day" default:"10" env:"STAMPEDE_SMS_PER_PHONE_DAY" help:"SMS codes for one phone in a day; 0: no limit." group:"SMS:" min:"0" max:"1000000" rare:""`
	SMSPerAddress      int `name:"sms-per-address" default:"20" env:"STAMPEDE_SMS_PER_ADDRESS" help:"SMS codes asked for from one address in an hour; 0: no limit." group:"SMS:" min:"0" max:"1000000" rare:""`
	RegisterPerAddress int `default:"5" env:"STAMPEDE_REGISTER_PER_ADDRESS" help:"Registrations from one address in an hour; 0: no limit." min:"0" max:"1000000" rare:""`

	CheckAfterFailures        int `default:"3" env:"STAMPEDE_CHECK_AFTER_FAILURES" help:"Failed logins of one phone in 15 minutes after which the human check is asked for." min:"0" max:"1000000" rare:""`
	CheckAfterAddress         int `default:"10" env:"STAMPEDE_CHECK_AFTER_ADDRESS" help:"Failed logins from one address in 15 minutes after which the human check is asked for." min:"0" max:"1000000" rare:""`
	CheckAfterCodes           int `default:"2" env:"STAMPEDE_CHECK_AFTER_CODES" help:"SMS codes for one phone in an hour after which the human check is asked for." min:"0" max:"1000000" rare:""`
	CheckAfterAddressRequests int `default:"3" env:"STAMPEDE_CHECK_AFTER_ADDRESS_REQUESTS" help:"SMS codes or registrations from one address in an hour after which the human check is asked for." min:"0" max:"1000000" rare:""`
}

// Check compares the two lifetimes.
func (s Settings) Check() error {
	if s.RefreshLifetime < s.AccessLifetime {
		return fmt.Errorf("--refresh-lifetime must be at least --access-lifetime (%s), not %s", s.AccessLifetime, s.RefreshLifetime)
	}
	return nil
}

// keepEnded is how long a login is remembered after its end: long enough to ask
// what happened, and no longer.
const keepEnded = 30 * 24 * time.Hour

// Config is how accounts behave. NewConfig makes it of settings.
type Config struct {
	Settings
	// SigningKey is the server's, PreviousKeys those that are being replaced; this
	// package derives its own keys from them.
	SigningKey   []byte
	PreviousKeys [][]byte
	Password     password.Params
	// FirstAdmin becomes an admin at its next login while the shop has none.
	FirstAdmin Phone
	// SMSReach is where SMS are sent to; of +86 ParsePhone takes mobile numbers only.
	SMSReach     sms.Reach
	SMSSignature string
	// KeepEnded is keepEnded but in tests.
	KeepEnded time.Duration
}

// NewConfig is the configuration that settings ask for.
func NewConfig(set Settings, texts sms.Settings, signingKey []byte, previous ...[]byte) (Config, error) {
	c := Config{
		Settings: set, SigningKey: signingKey, PreviousKeys: previous, Password: set.PasswordCost.Params(),
		SMSSignature: texts.SMSSignature, KeepEnded: keepEnded,
	}
	var err error
	if c.SMSReach, err = sms.ParseReach(texts.SMSCountries); err != nil {
		return Config{}, fmt.Errorf("--sms-countries %w", err)
	}
	if set.FirstAdminPhone == "" {
		return c, nil
	}
	if c.FirstAdmin, err = ParsePhone(set.FirstAdminPhone); err != nil {
		return Config{}, errors.New("--first-admin-phone must be a mobile number such as +8613800138000")
	}
	if !c.SMSReach.Covers(string(c.FirstAdmin)) {
		return Config{}, fmt.Errorf("--first-admin-phone gets no SMS, which go to %s only: add its prefix to --sms-countries", c.SMSReach)
	}
	return c, nil
}
