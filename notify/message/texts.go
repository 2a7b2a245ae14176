package message

import (
	"context"
	"strings"
	"time"

	"stampede/notify/message/internal/messagedb"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/sms"
)

// text is a text with its placeholders.
type text struct {
	Subject, Body string
	Template      string // the provider's name of it
	UpdatedAt     time.Time
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

// of is the shop's text, or the built-in one.
func (t texts) of(k Kind, channel string, lang httpx.Language) text {
	if own, has := t[place{k, channel, lang}]; has {
		return own
	}
	return text{Subject: subjects[k][lang], Body: bodies[k][lang], Template: templateKey(k, lang)}
}

// textsNow reads the shop's own texts: some rows.
func (s *Service) textsNow(ctx context.Context) (texts, error) {
	rows, err := messagedb.New(s.deps.DB).Texts(ctx)
	if err != nil {
		return nil, failed("read the texts", err)
	}
	own := make(texts, len(rows))
	for _, r := range rows {
		lang := httpx.English
		if r.Language == languages[httpx.Chinese] {
			lang = httpx.Chinese
		}
		own[place{Kind(r.Kind), r.Channel, lang}] = text{r.Subject, r.Body, r.Template, r.UpdatedAt}
	}
	return own, nil
}
