package config_test

import (
	"strings"
	"testing"
)

func TestRiskSettingsHaveBounds(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{
		"--blacklist-max=99", "--risk-max-offenders=1000001", "--blacklist-keep=59m", "--risk-keep-decisions=0s", "--claim-keep=-1s", "--claim-keep=721h",
	} {
		flag, _, _ := strings.Cut(arg, "=")
		if _, _, err := parse(t, arg); err == nil || !strings.Contains(err.Error(), flag+" ") {
			t.Errorf("%s: %v", arg, err)
		}
	}
	if _, _, err := parse(t, "--claim-keep=0s", "--blacklist-max=100"); err != nil {
		t.Error(err)
	}
}
