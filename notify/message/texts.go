package message

import (
	"context"
	"time"

	"stampede/notify/message/internal/messagedb"
	"stampede/platform/edge/httpx"
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

// of is the shop's text, or the built-in one.
func (t texts) of(k Kind, channel string, lang httpx.Language) text {
	if own, has := t[place{k, channel, lang}]; has {
		return own
	}
	return text{Subject: subjects[k][lang], Body: bodies[k][lang], Template: string(k) + "-" + languages[lang]}
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
