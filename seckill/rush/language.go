package rush

import (
	"strings"

	"stampede/platform/edge/httpx"
)

// commonLanguages are the headers that nearly every browser and app sends. They
// are answered from a map, because parsing one costs more than refusing a rush;
// the parser itself fills the map, so the two cannot disagree.
var commonLanguages = languagesOf(
	"", "*",
	"zh", "zh-CN", "zh-cn", "zh-CN,zh", "zh-CN,zh;q=0.9", "zh-CN, zh;q=0.9", "zh-CN,zh-Hans;q=0.9", "zh-CN,zh;q=0.9,en;q=0.8", "zh-CN,en-US;q=0.9",
	"zh-CN,zh;q=0.9,en-US;q=0.8,en;q=0.7", "zh-CN,zh;q=0.9,en;q=0.8,en-GB;q=0.7,en-US;q=0.6",
	"zh-CN,zh;q=0.8,zh-TW;q=0.7,zh-HK;q=0.5,en-US;q=0.3,en;q=0.2", "zh-Hans-CN;q=1", "zh-Hans-CN;q=1, en-CN;q=0.9",
	"en", "en-US", "en-us", "en-GB", "en-US,en", "en-US,en;q=0.9", "en-US, en;q=0.9", "en-US,en;q=0.5", "en-US,en;q=0.8", "en-GB,en;q=0.9",
	"en-GB,en-US;q=0.9,en;q=0.8", "en-US,en;q=0.9,zh-CN;q=0.8,zh;q=0.7", "en,zh-CN;q=0.9,zh;q=0.8",
)

func languagesOf(headers ...string) map[string]httpx.Language {
	m := make(map[string]httpx.Language, len(headers))
	for _, h := range headers {
		m[h] = httpx.LanguageOf(h)
	}
	return m
}

// language picks the language of an answer as every other route does, weights
// included. It allocates nothing for the common headers. Several lines of the
// header are one list (RFC 9110).
func language(accept []string) httpx.Language {
	var header string
	switch len(accept) {
	case 0:
	case 1:
		header = accept[0]
	default:
		header = strings.Join(accept, ",")
	}
	if lang, common := commonLanguages[header]; common {
		return lang
	}
	return httpx.LanguageOf(header)
}
