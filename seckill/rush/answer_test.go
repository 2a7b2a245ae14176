package rush

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stampede/platform/edge/httpx"
	"stampede/platform/workshop/require"
)

// The texts that shoppers read are part of the API: a change shows in the
// golden file, which `make generate` rewrites.
func TestRefusalsGolden(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for o := outQueued; o < outcomes; o++ {
		r := &ready[o]
		if r.status == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s: %d, Retry-After %v\n", o, r.status, r.retry)
		for _, lang := range []httpx.Language{httpx.English, httpx.Chinese} {
			b.Write(r.body[lang])
		}
	}
	file := filepath.Join("testdata", "refusals.txt")
	if os.Getenv("STAMPEDE_UPDATE_GOLDEN") == "1" {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "the answers", b.String(), string(want))
}

func TestLanguageAgreesWithTheParser(t *testing.T) {
	t.Parallel()
	headers := []string{
		"", "zh", "zh-CN", "ZH-hans", "en", "en-GB,en;q=0.9,zh;q=0.1", "en-US", "de-DE,de;q=0.9,zh;q=0.8", "de,fr;q=0.5", "*",
		"fr, zh;q=0.8, en;q=0.5", "zha", "z", ",,;zh", "en;q=0.1,zh;q=0.9", "zh;q=0.2, en", "zh;q=0,en;q=0.1", "en;q=0.8,zh-CN;q=0.9", "zh-TW,en;q=0.9",
	}
	for header := range commonLanguages {
		headers = append(headers, header)
	}
	for _, header := range headers {
		require.Equal(t, header, language(header), httpx.LanguageOf(header))
	}
	require.Equal(t, "without a header", language(""), httpx.English)
}
