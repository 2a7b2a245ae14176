package account_test

import (
	"strings"
	"testing"

	"stampede/platform/base/config"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
)

// The first admin needs a phone that SMS are sent to.
func TestFirstAdminGetsItsCode(t *testing.T) {
	t.Parallel()
	set, texts := config.Defaults[account.Settings](), config.Defaults[sms.Settings]()
	set.FirstAdminPhone = "+8612345678901"
	if _, err := account.NewConfig(set, texts, nil); err == nil {
		t.Error("an impossible first-admin phone is accepted")
	}
	set.FirstAdminPhone = "+85251234567"
	if _, err := account.NewConfig(set, texts, nil); err == nil || !strings.Contains(err.Error(), "--sms-countries") {
		t.Errorf("a first admin who cannot receive a code: %v", err)
	}
	texts.SMSCountries = []string{"+86", "+852"}
	if c, err := account.NewConfig(set, texts, nil); err != nil || c.SMSReach.String() != "+86, +852" {
		t.Errorf("with another country: %s, %v", c.SMSReach, err)
	}
}
