package message

import (
	"context"
	"strings"

	"stampede/notify/message/internal/messagedb"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/sms"
)

// text is a text with its placeholders.
type text struct {
	Body     string
	Template string // the provider's name of it, or WeChat's
}

// place names a text.
type place struct {
	kind     Kind
	channel  string
	language httpx.Language
}

// texts are the shop's own ones.
type texts map[place]text

// languages are the names of languages in storage and in the API.
var languages = [...]string{httpx.English: "en", httpx.Chinese: "zh"}

// other is the language in which a reader gets what the shop has not written in theirs.
var other = [...]httpx.Language{httpx.English: httpx.Chinese, httpx.Chinese: httpx.English}

// templates are the built-in texts, for providers that approve texts. A shop may do without: a text of its own has the
// provider's id itself.
var templates = func() map[Kind]sms.Template {
	all := map[Kind]sms.Template{}
	for k, body := range bodies {
		t := sms.Template{Key: strings.ReplaceAll(string(k), "_", "-"), Text: body, Optional: true}
		for _, p := range paramsOf(body[httpx.Chinese], nil) {
			t.Params = append(t.Params, p.Name)
		}
		all[k] = sms.Register(t)
	}
	return all
}()

// templateKey names a built-in text in --sms-templates.
func templateKey(k Kind, lang httpx.Language) string {
	if lang == httpx.English {
		return templates[k].Key + ".en"
	}
	return templates[k].Key
}

// has reports whether the shop has written a text.
func (t texts) has(p place) bool { _, has := t[p]; return has }

// forWeChat reports whether the shop has written a text for one of WeChat's channels.
func (t texts) forWeChat() bool {
	for p := range t {
		if isWeChat(p.channel) {
			return true
		}
	}
	return false
}

// of is the shop's text, or the built-in one: of an e-mail the first line is the subject. It is empty for WeChat, whose templates
// are the shop's own.
func (t texts) of(p place) text {
	own, has := t[p]
	switch {
	case has || isWeChat(p.channel):
		return own
	case p.channel == channelMail:
		return text{Body: subjects[p.kind][p.language] + "\n\n" + bodies[p.kind][p.language] + "\n\n{" + fillLink + "}"}
	}
	return text{Body: bodies[p.kind][p.language], Template: templateKey(p.kind, p.language)}
}

// readTexts reads the shop's own texts: some rows.
func (s *Service) readTexts(ctx context.Context) (texts, error) {
	rows, err := messagedb.New(s.deps.DB).Texts(ctx)
	own := make(texts, len(rows))
	for _, r := range rows {
		own[placeNamed(Kind(r.Kind), r.Channel, r.Language)] = text{r.Body, r.Template}
	}
	return own, failed("read the texts", err)
}

// placeNamed is a place by the language's name.
func placeNamed(k Kind, channel, language string) place {
	if language == languages[httpx.Chinese] {
		return place{k, channel, httpx.Chinese}
	}
	return place{k, channel, httpx.English}
}
