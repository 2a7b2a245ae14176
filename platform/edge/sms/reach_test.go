package sms_test

import (
	"strings"
	"testing"

	"stampede/platform/edge/sms"
)

// Which numbers each setting covers, and which settings are invalid.
func TestReach(t *testing.T) {
	t.Parallel()
	const hangzhou, hongKong, taipei, austin, kingston = "+8613800138000", "+85251234567", "+886912345678", "+15125550123", "+18765550123"
	for setting, covered := range map[string]string{
		"+86":        hangzhou,
		"+86,+852":   hangzhou + " " + hongKong,
		"+8":         hangzhou + " " + hongKong + " " + taipei,
		"+1":         austin + " " + kingston,
		"+1876":      kingston,
		"*":          strings.Join([]string{hangzhou, hongKong, taipei, austin, kingston}, " "),
		"+7":         "",
		"+861380013": "refused", "86": "refused", "0086": "refused", "+": "refused", "+0": "refused", "": "refused", "CN": "refused",
		"*,+86": "refused", "+86, +852": "refused", "+86,": "refused", "+*": "refused", "+86\n": "refused",
	} {
		reach, err := sms.ParseReach(strings.Split(setting, ","))
		if (err != nil) != (covered == "refused") || err != nil && !strings.Contains(err.Error(), "such as +86") {
			t.Errorf("%q: %v", setting, err)
		}
		for _, phone := range []string{hangzhou, hongKong, taipei, austin, kingston} {
			if want := strings.Contains(covered, phone); reach.Covers(phone) != want {
				t.Errorf("%q covers %s: %v, want %v", setting, phone, !want, want)
			}
		}
	}
	if reach, err := sms.ParseReach(nil); err == nil || reach.Covers(hangzhou) {
		t.Errorf("no prefix at all: %v, %v", reach, err)
	}
}
