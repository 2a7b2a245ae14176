package plaintext

import (
	"strings"
	"testing"

	"stampede/platform/workshop/require"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"\u202a+8613800138000\u202c":          "+8613800138000",                      // as phones copy numbers
		" 南京东路\u200b 1 号\ufeff\u2069 ":        "南京东路 1 号",                            // as chats and pages copy addresses
		"evil\u202egpj.exe":                   "evilgpj.exe",                         // reads backwards
		"علی\u200cرضا 👨\u200d👩\u200d👧 \u0600": "علی\u200cرضا 👨\u200d👩\u200d👧 \u0600", // needs its joiners
		"\u200b": "",
		"two\nlines, which are not this one's affair": "two\nlines, which are not this one's affair",
	} {
		require.Equal(t, in, Clean(in), want)
		require.Equal(t, in+" is unruly after it was cleaned", strings.ContainsFunc(strings.ReplaceAll(Clean(in), "\n", ""), Unruly), false)
	}
}
