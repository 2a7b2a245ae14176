package account

import (
	"errors"
	"fmt"

	"stampede/platform/account/password"
	"stampede/platform/config"
	"stampede/platform/sms"
)

// FromSettings is the configuration that the server's settings ask for.
func FromSettings(set config.Accounts, signingKey []byte, previous ...[]byte) (Config, error) {
	c := DefaultConfig()
	c.SigningKey, c.PreviousKeys = signingKey, previous
	c.AccessLifetime, c.RefreshLifetime = set.AccessLifetime, set.RefreshLifetime
	c.Password = password.Params{MemoryKiB: set.PasswordMemoryKiB, Passes: set.PasswordPasses, Threads: set.PasswordThreads}
	if set.PasswordParallel > 0 {
		c.PasswordParallel = set.PasswordParallel
	}
	if set.FirstAdminPhone != "" {
		var err error
		if c.FirstAdmin, err = ParsePhone(set.FirstAdminPhone); err != nil {
			return Config{}, errors.New("--first-admin-phone must be a mobile number such as +8613800138000")
		}
	}
	c.Limits = Limits{
		LoginPerPhone: set.LoginPerPhone, LoginPerAddress: set.LoginPerAddress,
		SMSPerPhoneHour: set.SMSPerPhoneHour, SMSPerPhoneDay: set.SMSPerPhoneDay, SMSPerAddress: set.SMSPerAddress,
		RegisterPerAddress: set.RegisterPerAddress,
		CheckAfterFailures: set.CheckAfterFailures, CheckAfterAddress: set.CheckAfterAddress,
		CheckAfterCodes: set.CheckAfterCodes, CheckAfterAddressRequests: set.CheckAfterAddressRequests,
	}
	c.SMSSignature = set.SMSSignature
	var err error
	if c.SMSReach, err = sms.ParseReach(set.SMSCountries); err != nil {
		return Config{}, fmt.Errorf("--sms-countries %w", err)
	}
	return c, c.Validate()
}
