package httpx

import "golang.org/x/text/language"

// Language is one that problem titles are written in.
type Language uint8

// The languages, in the order of fault.Titles.
const (
	English Language = iota
	Chinese
)

var matcher = language.NewMatcher([]language.Tag{language.English, language.Chinese})

// LanguageOf picks the best language for an Accept-Language header; English
// when it names none of ours.
func LanguageOf(accept string) Language {
	if accept == "" {
		return English
	}
	_, i := language.MatchStrings(matcher, accept)
	return Language(i)
}
