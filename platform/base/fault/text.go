package fault

import (
	"fmt"
	"strings"
)

// Text is what a person reads, in English and in Chinese.
type Text [2]string

// T returns a text. Figures, given by their names, replace the placeholders of both languages:
// T("At most {most}.", "最多 {most}。", "most", 5). A figure that is a Text itself is said in
// the language of the text around it.
func T(english, chinese string, figures ...any) Text {
	text := Text{english, chinese}
	if len(figures) == 0 {
		return text
	}
	for lang := range text {
		pairs := make([]string, len(figures))
		for i, figure := range figures {
			inner, nested := figure.(Text)
			switch {
			case nested:
				pairs[i] = inner[lang]
			case i%2 == 0:
				pairs[i] = fmt.Sprintf("{%s}", figure)
			default:
				pairs[i] = fmt.Sprint(figure)
			}
		}
		text[lang] = strings.NewReplacer(pairs...).Replace(text[lang])
	}
	return text
}

// Flaw is what is wrong with one member of a request, as its reader fills it in.
type Flaw struct {
	Location string // "body.phone"
	Says     Text
	Value    any // as the request wrote it; nil quotes nothing
}

// Flaws collects what is wrong with a request, so that one answer lists all of it.
type Flaws []Flaw

// MaxFlaws is how many flaws an answer lists: more than a person corrects at a time.
const MaxFlaws = 20

// Add records a flaw unless ok is true.
func (f *Flaws) Add(ok bool, location string, value any, says Text) {
	if !ok {
		*f = append(*f, Flaw{location, says, value})
	}
}

var errFlaws = Plain(Invalid, T("Some fields are not valid; each is listed with its rule.", "以下内容需要修改。"))

// Err is the error that lists the flaws; nil if there are none.
func (f Flaws) Err() error {
	if len(f) == 0 {
		return nil
	}
	err := *errFlaws
	if err.Flaws = f; len(f) > MaxFlaws {
		err.Detail = T("Some fields are not valid; the first {listed} of {all} are listed with their rules.",
			"共 {all} 处需要修改，以下是前 {listed} 处。", "listed", MaxFlaws, "all", len(f))
	}
	return &err
}
