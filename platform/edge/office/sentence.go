package office

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"stampede/platform/edge/httpx"
)

// The modules word the sentences of a refusal in English, because programs log them. The
// office says the frequent ones in Chinese: it knows each by the format that made it.

// sentence is one of them.
type sentence struct {
	english *regexp.Regexp
	chinese string // with the same figures, as texts: %s or %[2]s
}

// verb is a verb of package fmt in a format.
var verb = regexp.MustCompile(`%(?:%|(?:\.\d+)?[a-z])`)

// newSentence knows a sentence by its format.
func newSentence(english, chinese string) (sentence, error) {
	var pattern strings.Builder
	rest := english
	for at := verb.FindStringIndex(rest); at != nil; at = verb.FindStringIndex(rest) {
		pattern.WriteString(regexp.QuoteMeta(rest[:at[0]]))
		switch rest[at[0]:at[1]] {
		case "%%":
			pattern.WriteString("%")
		case "%q":
			pattern.WriteString(`"(.*?)"`)
		default:
			pattern.WriteString("(.*?)")
		}
		rest = rest[at[1]:]
	}
	known, err := regexp.Compile("(?s)^" + pattern.String() + regexp.QuoteMeta(rest) + "$")
	if err != nil {
		return sentence{}, fmt.Errorf("office: the sentence %q: %w", english, err)
	}
	return sentence{known, chinese}, nil
}

// learn adds sentences, by their formats. The longer ones are tried first, because they
// say more.
func (o *Office) learn(sentences map[string]string) error {
	for english, chinese := range sentences {
		known, err := newSentence(english, chinese)
		if err != nil {
			return err
		}
		o.sentences = append(o.sentences, known)
	}
	slices.SortFunc(o.sentences, func(a, b sentence) int {
		return cmp.Or(len(b.english.String())-len(a.english.String()), strings.Compare(a.english.String(), b.english.String()))
	})
	return nil
}

// Say returns a sentence of the API in the page's language, where the office knows it.
func (c *Call) Say(value any) string {
	english := text(value)
	if c.Lang != httpx.Chinese || english == "" {
		return english
	}
	for _, s := range c.office.sentences {
		found := s.english.FindStringSubmatch(english)
		if found == nil {
			continue
		}
		figures := make([]any, len(found)-1)
		for i := range figures {
			figures[i] = c.Say(found[i+1]) // a sentence may quote another
		}
		if len(figures) == 0 || !verb.MatchString(s.chinese) && !strings.Contains(s.chinese, "%[") {
			return s.chinese
		}
		return fmt.Sprintf(s.chinese, figures...)
	}
	return english
}

// inWords says a refusal's sentences in the page's language.
func (c *Call) inWords(p *Problem) *Problem {
	p.Detail = c.Say(p.Detail)
	for i := range p.Errors {
		p.Errors[i].Message = c.Say(p.Errors[i].Message)
	}
	return p
}
