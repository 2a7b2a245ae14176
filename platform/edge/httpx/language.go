package httpx

import "golang.org/x/text/language"

// Language is a language of problem titles.
type Language uint8

// The languages, in the order of fault.Titles.
const (
	English Language = iota
	Chinese
)

var matcher = language.NewMatcher([]language.Tag{language.English, language.Chinese})

// LanguageOf picks the best supported language for an Accept-Language header, else
// English.
func LanguageOf(accept string) Language {
	if accept == "" {
		return English
	}
	_, i := language.MatchStrings(matcher, accept)
	return Language(i)
}
