package office

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2/validation"

	"stampede/platform/edge/httpx"
)

// The API words the sentences of a refusal in English, because programs log them. The
// office says the frequent ones in Chinese: it knows each by the format that made it.

// sentence is one of them.
type sentence struct {
	english *regexp.Regexp
	chinese string // with the same figures, as texts: %s or %[2]s
}

// ofValidation are the sentences of what the API's schema refuses, behind the name of a
// member.
func ofValidation() map[string]string {
	known := map[string]string{}
	for english, chinese := range map[string]string{
		validation.MsgUnexpectedProperty: "不支持该字段。", validation.MsgExpectedRFC3339DateTime: "请填写日期和时间。", validation.MsgExpectedRFC3339Date: "请填写日期。",
		validation.MsgExpectedBoolean: "请选择是或否。", validation.MsgExpectedNumber: "请输入数字。", validation.MsgExpectedInteger: "请输入整数。",
		validation.MsgExpectedString: "请输入文字。", validation.MsgExpectedArrayItemsUnique: "不能重复。", validation.MsgExpectedOneOf: "请从列出的选项中选择。",
		validation.MsgExpectedMinimumNumber: "不能小于 %[2]s。", validation.MsgExpectedExclusiveMinimumNumber: "须大于 %[2]s。",
		validation.MsgExpectedMaximumNumber: "不能大于 %[2]s。", validation.MsgExpectedExclusiveMaximumNumber: "须小于 %[2]s。",
		validation.MsgExpectedMinLength: "至少 %[2]s 个字符。", validation.MsgExpectedMaxLength: "最多 %[2]s 个字符。",
		validation.MsgExpectedMinItems: "至少 %[2]s 项。", validation.MsgExpectedMaxItems: "最多 %[2]s 项。", "is missing": "必填。",
	} {
		known["%s "+english+"."] = chinese
	}
	return known
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
