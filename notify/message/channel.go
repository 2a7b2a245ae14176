package message

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/mail"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/wechat"
	"stampede/platform/identity/wechatmsg"
)

// The channels. Each of WeChat's has texts of its own, because a template belongs to one app.
const (
	channelOfficial = "wechat"      // template messages of the official account
	channelMini     = "wechat-mini" // subscription messages of the mini program
	channelSMS      = "sms"
	channelMail     = "email"
)

// channels are all of them, in the order in which they are tried: a phone that rings is read before an e-mail.
var channels = []string{channelOfficial, channelMini, channelSMS, channelMail}

// isWeChat reports whether a channel's texts are a shop's own templates at WeChat, so that none is built in.
func isWeChat(channel string) bool { return appOf[channel] != "" }

// appOf is the app of a channel of WeChat's.
var appOf = map[string]wechat.Kind{channelOfficial: wechat.Official, channelMini: wechat.Mini}

// available are the channels that the server has.
func (s *Service) available() []string {
	has := []string{}
	for _, c := range channels {
		if c == channelSMS && s.deps.Sender != nil || c == channelMail && s.deps.Mail != nil || isWeChat(c) && s.deps.WeChat.AppID(appOf[c]) != "" {
			has = append(has, c)
		}
	}
	return has
}

// reader is where a user is reached: a phone, an openid or an e-mail address, by channel.
type reader map[string]string

// readers returns where users are reached by the channels that the server has and for which there are texts.
func (s *Service) readers(ctx context.Context, own texts, users []int64) (map[int64]reader, error) {
	found := make(map[int64]reader, len(users))
	for _, user := range users {
		found[user] = reader{}
	}
	if s.deps.Sender != nil || s.deps.Mail != nil {
		contacts, err := s.deps.Contacts(ctx, users)
		if err != nil {
			return nil, failed("look up phones and e-mail addresses", err)
		}
		for user, c := range contacts {
			if s.deps.Sender != nil && c.Phone != "" && s.deps.Reach.Covers(c.Phone) {
				found[user][channelSMS] = c.Phone
			}
			if s.deps.Mail != nil && c.Email != "" {
				found[user][channelMail] = c.Email
			}
		}
	}
	if !own.forWeChat() {
		return found, nil
	}
	openIDs, err := s.deps.OpenIDs(ctx, users)
	if err != nil {
		return nil, failed("look up who has linked WeChat", err)
	}
	for user, byApp := range openIDs {
		for channel, kind := range appOf {
			if id := byApp[s.deps.WeChat.AppID(kind)]; id != "" {
				found[user][channel] = id
			}
		}
	}
	return found, nil
}

// reached reports whether a channel that has a text of the kind reaches a user.
func (r reader) reached(k Kind, own texts) bool {
	return slices.ContainsFunc(channels, func(c string) bool {
		return r[c] != "" && (!isWeChat(c) || own.has(place{k, c, httpx.English}) || own.has(place{k, c, httpx.Chinese}))
	})
}

// letter is a message as its channel takes it.
type letter struct {
	channel string
	text    string // as its reader sees it
	parts   int    // SMS that it is charged as; the other channels charge nothing
	sms     sms.Message
	wechat  wechatmsg.Message
	mail    mail.Message
}

// compose fills a text for an address of its channel.
func (s *Service) compose(p place, t text, f *facts, user int64, no, id ids.ID, address string) letter {
	words := f.words(no, p.language, s.now(), s.deps.Zone)
	words[fillShop], words[fillLink] = s.deps.Signature, s.deps.BaseURL+"/"
	if !no.IsZero() {
		words[fillLink] += "?order=" + no.String()
	}
	if p.kind.Offer() {
		words[fillUnsubscribe] = s.unsubscribeLink(user)
	}
	switch {
	case isWeChat(p.channel):
		return s.composeWeChat(p, t, f, words, id, address)
	case p.channel == channelMail:
		return composeMail(p, t, words, id, address)
	}
	l := letter{channel: p.channel, text: sms.Signed(s.deps.Signature, p.language, fill(t.Body, words))}
	if p.kind.Offer() {
		l.text += optOut[p.language]
	}
	l.parts = Parts(l.text, strings.HasPrefix(address, china))
	l.sms = sms.Message{ID: id.String(), Phone: address, Text: l.text, Template: t.Template}
	words[fillItem] = cut(words[fillItem], paramRunes)
	l.sms.Params = paramsOf(t.Body, words)
	return l
}

// composeMail fills a text whose first line is the subject. Mail programs show a button that ends offers.
func composeMail(p place, t text, words map[string]string, id ids.ID, address string) letter {
	subject, body, _ := strings.Cut(t.Body, "\n")
	m := mail.Message{ID: id.String(), To: address, Subject: strings.TrimSpace(fill(subject, words)), Text: strings.TrimSpace(fill(body, words)) + "\n"}
	if p.kind.Offer() {
		m.Unsubscribe = words[fillUnsubscribe]
		m.Text += "\n" + mailOptOut[p.language] + m.Unsubscribe + "\n"
	}
	return letter{channel: p.channel, text: m.Subject + "\n\n" + m.Text, mail: m}
}

// cut is a text in so many characters.
func cut(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

const (
	// paramRunes is what providers take of a parameter; they refuse a message with a longer one.
	paramRunes = 35
	// pageField is the line of a text for WeChat that says what a tap opens.
	pageField = "page"
	// wechatTime is the form of times that WeChat takes.
	wechatTime = "2006年1月2日 15:04"
	// thingRunes is what WeChat takes in a field of the type thing; it refuses a message with a longer one.
	thingRunes = 20
)

func (s *Service) composeWeChat(p place, t text, f *facts, words map[string]string, id ids.ID, openID string) letter {
	if !f.At.IsZero() {
		words[fillTime] = f.At.In(s.deps.Zone).Format(wechatTime)
	}
	m := wechatmsg.Message{ID: id.String(), App: appOf[p.channel], OpenID: openID, Template: t.Template, Data: map[string]string{}}
	if p.channel == channelOfficial {
		m.Page = words[fillLink]
	}
	var lines []string
	for field, value := range fieldsOf(t.Body) {
		value = fill(value, words)
		switch {
		case field == pageField:
			m.Page = value
			continue
		case strings.HasPrefix(field, "thing"):
			value = cut(value, thingRunes)
		case strings.HasPrefix(field, "amount"):
			value = strings.ReplaceAll(value, ",", "") // WeChat takes digits only
		}
		m.Data[field] = value
		lines = append(lines, field+": "+value)
	}
	return letter{channel: p.channel, text: strings.Join(lines, "\n"), wechat: m}
}

// fieldsOf are the lines of a text for WeChat, as field and text.
func fieldsOf(body string) func(yield func(field, value string) bool) {
	return func(yield func(field, value string) bool) {
		for line := range strings.Lines(body) {
			field, value, _ := strings.Cut(line, "=")
			if strings.TrimSpace(line) != "" && !yield(strings.TrimSpace(field), strings.TrimSpace(value)) {
				return
			}
		}
	}
}

// checkFields refuses a text for WeChat that is no list of fields, or names no template.
func checkFields(flaws *fault.Flaws, t text) {
	flaws.Add(t.Template != "", "body.template", nil, fault.T(
		"Give the id of the template that you have chosen at WeChat.", "请填写在微信后台选用的模板 ID。"))
	seen := map[string]bool{}
	for field, value := range fieldsOf(t.Body) {
		flaws.Add(value != "" && !seen[field] && fieldName.MatchString(field), "body.body", field, fault.T(
			"{field}: write one line for each field of the template, such as {example}.", "{field}：每个模板字段写一行，如 {example}。",
			"field", field, "example", "thing1 = {item}"))
		seen[field] = true
	}
	flaws.Add(len(seen) > 1 || !seen[pageField], "body.body", nil, fault.T(
		"Write a line for each field of the template beside the page.", "除 page 外，模板的每个字段写一行。"))
}

// fieldName is a field of a template: its type, and a number.
var fieldName = regexp.MustCompile(`^[a-z_]+[0-9]*$`)

// recipient is the phone or the address that a message goes to, masked; an openid says nothing to operators.
func (l letter) recipient() string {
	if l.channel == channelMail {
		return account.MaskedEmail(l.mail.To)
	}
	return account.Phone(l.sms.Phone).Masked()
}

// deliver hands a message to its channel.
func (s *Service) deliver(ctx context.Context, l letter) error {
	switch l.channel {
	case channelSMS:
		return s.deps.Sender.Send(ctx, l.sms)
	case channelMail:
		return s.deps.Mail.Send(ctx, l.mail)
	}
	return s.deps.WeChat.Send(ctx, l.wechat)
}
