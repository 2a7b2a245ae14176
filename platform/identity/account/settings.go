package account

import (
	"errors"
	"fmt"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account/password"
)

// Settings are the operator's settings for accounts and logins. The windows of the
// limits are fixed; guard/limits.go gives the reasons.
type Settings struct {
	AccessLifetime   time.Duration `default:"15m" env:"STAMPEDE_ACCESS_LIFETIME" help:"How long an access token is valid; short, because an instance that missed a revocation accepts it until then." min:"1m" max:"24h" rare:""`
	RefreshLifetime  time.Duration `default:"720h" env:"STAMPEDE_REFRESH_LIFETIME" help:"How long a login lasts without being used; 720h are 30 days." max:"4320h" rare:""`
	FirstAdminPhone  string        `default:"" env:"STAMPEDE_FIRST_ADMIN_PHONE" help:"Phone that becomes an admin at its next login while the shop has none, e.g. +8613800138000." secret:""`
	AdminWithoutTOTP bool          `name:"admin-without-totp" env:"STAMPEDE_ADMIN_WITHOUT_TOTP" help:"Let admins act without a second factor; their tokens otherwise have the role shopper until they add one at me/totp. run sets it." rare:""`
	PasswordCost     password.Cost `default:"interactive" enum:"interactive,moderate,sensitive" env:"STAMPEDE_PASSWORD_COST" help:"Cost of a password hash (argon2id) for an attacker and for the server: interactive (19 MiB of memory, 2 passes), moderate (64 MiB, 3) or sensitive (256 MiB, 3). Passwords are hashed again at login when this changes." rare:""`
	PasswordParallel int           `default:"0" env:"STAMPEDE_PASSWORD_PARALLEL" help:"Password hashes computed in parallel, each with its own memory; a login that finds all busy waits briefly, then is refused. 0: one per core." min:"0" max:"1000" rare:""`

	Limits `embed:""`
}

// Limits are counts; 0 turns one off. Those of addresses are last resorts: hundreds of
// shoppers share the addresses of mobile networks, and an address that does much has
// to work for it long before (see guard/record.go).
type Limits struct {
	LoginPerPhone      int `default:"5" env:"STAMPEDE_LOGIN_PER_PHONE" help:"Password logins that one phone may attempt per minute; 0: no limit." min:"0" max:"1000000" rare:""`
	LoginPerAddress    int `default:"500" env:"STAMPEDE_LOGIN_PER_ADDRESS" help:"Logins that one address may attempt per minute, however much work it does; 0: no limit." min:"0" max:"1000000" rare:""`
	SMSPerPhoneHour    int `name:"sms-per-phone-hour" default:"5" env:"STAMPEDE_SMS_PER_PHONE_HOUR" help:"SMS codes for one phone per hour, at least a minute apart; 0: no limit." group:"SMS:" min:"0" max:"1000000" rare:""`
	SMSPerPhoneDay     int `name:"sms-per-phone-day" default:"10" env:"STAMPEDE_SMS_PER_PHONE_DAY" help:"SMS codes for one phone per day; 0: no limit." group:"SMS:" min:"0" max:"1000000" rare:""`
	SMSPerHour         int `name:"sms-per-hour" default:"10000" env:"STAMPEDE_SMS_PER_HOUR" help:"SMS that the whole shop sends per hour, codes and notes; above it an alarm is raised, codes are refused and notes wait, only staff still get login codes. 0: no limit." group:"SMS:" min:"0" max:"1000000" rare:""`
	SMSPerAddress      int `name:"sms-per-address" default:"500" env:"STAMPEDE_SMS_PER_ADDRESS" help:"SMS codes requested from one address per hour, however much work it does; 0: no limit." group:"SMS:" min:"0" max:"1000000" rare:""`
	RegisterPerAddress int `default:"500" env:"STAMPEDE_REGISTER_PER_ADDRESS" help:"Accounts created from one address per hour, by registration or by a first login, however much work it does; 0: no limit." min:"0" max:"1000000" rare:""`
}

// Check validates the two lifetimes.
func (s Settings) Check() error {
	if s.RefreshLifetime < s.AccessLifetime {
		return fmt.Errorf("--refresh-lifetime must be at least --access-lifetime (%s), not %s", s.AccessLifetime, s.RefreshLifetime)
	}
	return nil
}

// keepEnded is how long an ended login's record is kept: long enough to investigate,
// and no longer.
const keepEnded = 30 * 24 * time.Hour

// Config is the accounts' configuration. NewConfig derives it from settings.
type Config struct {
	Settings
	// SigningKey is the server's, PreviousKeys are those being rotated out.
	SigningKey   []byte
	PreviousKeys [][]byte
	Password     password.Params
	// FirstAdmin becomes an admin at its next login while the shop has none.
	FirstAdmin Phone
	// SMSReach is where SMS are sent to; for +86 ParsePhone accepts mobile numbers
	// only.
	SMSReach     sms.Reach
	SMSSignature string
	// LoginURL is where shoppers log in instead of here; empty: here.
	LoginURL string
	// OverTLS says that browsers reach the server over https.
	OverTLS bool
	// KeepEnded is keepEnded except in tests.
	KeepEnded time.Duration
}

// Keys returns the keys for a purpose: access to the database alone suffices neither to
// guess codes offline nor to make tokens.
func (c Config) Keys(purpose string) auth.Ring {
	return auth.Keys(purpose, append([][]byte{c.SigningKey}, c.PreviousKeys...)...)
}

// NewConfig derives the configuration from settings.
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
		return Config{}, fmt.Errorf("--first-admin-phone cannot receive SMS, which are sent to %s only: add its prefix to --sms-countries", c.SMSReach)
	}
	return c, nil
}
