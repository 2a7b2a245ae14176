package message

import (
	"context"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"stampede/notify/message/internal/messagedb"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/sms"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

// available are the channels that the server has, in the order in which they are tried by default.
func (s operators) available() []string {
	names := []string{}
	for _, name := range ChannelNames {
		if _, has := s.deps.Channels[name]; has {
			names = append(names, name)
		}
	}
	return names
}

func (s operators) textRoutes(rt *httpx.Router) {
	const path = "/api/v1/admin/shopper-message-texts"
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: path, ID: "list-message-texts", Tag: "operator", Role: auth.Viewer, Summary: "The texts of messages in each channel and language, with what they look like",
	}, s.listTexts)
	const one = path + "/{kind}/{channel}/{language}"
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: one, ID: "get-message-text", Tag: "operator", Role: auth.Viewer, Summary: "A text of a message, with what it looks like",
	}, s.getText)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPut, Path: one, ID: "set-message-text", Tag: "operator", Role: auth.Admin, Audit: "message.text",
		Summary: "Write a text of a message", Description: "An empty body brings the built-in text back.",
	}, s.putText)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: one + "/preview", ID: "preview-message-text", Tag: "operator", Role: auth.Viewer, NoKey: "it changes nothing",
		Summary: "What a text would look like, and how many SMS it would be charged as", Audit: "message.preview",
	}, s.preview)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: one + "/test", ID: "test-message-text", Tag: "operator", Role: auth.Operator, NoKey: "a second test is a second message to the operator who asked",
		Summary: "Send the text to your own phone", Audit: "message.test", Refuses: []*fault.Error{errNoPhone, sms.ErrRefused, sms.ErrUnavailable},
	}, s.test)
}

// ShopperMessageText is a text with what it looks like.
type ShopperMessageText struct {
	Kind         Kind     `json:"kind" example:"won"`
	Channel      string   `json:"channel" example:"sms"`
	Language     string   `json:"language" enum:"en,zh"`
	Subject      string   `json:"subject,omitempty" doc:"Of an e-mail"`
	Body         string   `json:"body" example:"You got {item}. Pay {amount} by {time}."`
	Template     string   `json:"template,omitempty" doc:"The provider's name of the approved text, which gateways get beside it" example:"SMS_123456"`
	BuiltIn      bool     `json:"built_in"`
	Placeholders []string `json:"placeholders" nullable:"false" doc:"What the text may be filled with" example:"[\"item\",\"amount\",\"time\"]"`
	Preview      string   `json:"preview" doc:"Filled with examples, as it is sent: with the signature, and with how to opt out where the law asks for it" example:"[Shop] You got phone. Pay ¥9.90 by 20:15."`
	Characters   int      `json:"characters" doc:"Of the preview"`
	Parts        int32    `json:"parts" doc:"SMS that the preview is charged as. China's carriers count 70 characters, and 67 in each of several; so does any text with a character outside GSM's alphabet; others have 160 and 153"`
}

// sampleUser is nobody: the link of a preview unsubscribes no one.
const sampleUser = 0

// looks fills a text with examples.
func (s operators) looks(p place, t text, builtIn bool) ShopperMessageText {
	f, now := sampleFacts(s.now()), s.now()
	words := f.words(ids.New(), p.language, now, s.deps.Zone)
	words[fillUnsubscribe] = s.unsubscribeLink(sampleUser)
	m := s.compose(t, p.kind, p.channel, p.language, words, ids.ID{})
	v := ShopperMessageText{
		Kind: p.kind, Channel: p.channel, Language: languages[p.language], Body: t.Body, Template: t.Template, BuiltIn: builtIn,
		Placeholders: p.kind.fills(), Preview: m.Body, Characters: utf8.RuneCountInString(m.Body),
	}
	to := china // a Chinese text goes to China's carriers
	if p.language == httpx.English {
		to = "+44"
	}
	v.Parts = partsOf(p.channel, m.Body, to)
	if p.channel == ChannelMail {
		v.Subject, v.Preview = t.Subject, m.Subject+"\n\n"+m.Body
	}
	return v
}

func (s operators) listTexts(ctx context.Context, _ *noInput) (*httpx.PageOutput[ShopperMessageText], error) {
	own, err := s.textsNow(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	page := httpx.Page[ShopperMessageText]{Data: []ShopperMessageText{}}
	for _, k := range Kinds {
		for _, channel := range s.available() {
			for lang := range languages {
				p := place{k, channel, httpx.Language(lang)}
				_, written := own[p]
				page.Data = append(page.Data, s.looks(p, own.of(k, channel, p.language), !written))
			}
		}
	}
	return httpx.Answer(page), nil
}

// TextInput names a text. It is exported because huma requires that of embedded fields.
type TextInput struct {
	Kind     Kind   `path:"kind" enum:"reminder,won,deadline,paid,shipped,refunded,units_back,dispute"`
	Channel  string `path:"channel" enum:"sms,wechat,mail"`
	Language string `path:"language" enum:"en,zh"`
}

func (in *TextInput) place() place {
	p := place{in.Kind, in.Channel, httpx.English}
	if in.Language == languages[httpx.Chinese] {
		p.language = httpx.Chinese
	}
	return p
}

func (s operators) getText(ctx context.Context, in *TextInput) (*httpx.Output[ShopperMessageText], error) {
	own, err := s.textsNow(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	p := in.place()
	_, written := own[p]
	return httpx.Answer(s.looks(p, own.of(p.kind, p.channel, p.language), !written)), nil
}

// ShopperMessageWriting is a text as an operator writes it.
type ShopperMessageWriting struct {
	Subject  string `json:"subject,omitempty" maxLength:"200" doc:"Of an e-mail"`
	Body     string `json:"body" maxLength:"1000" doc:"With placeholders in braces, such as {item}; a signature and a way to opt out are added" example:"You got {item}. Pay {amount} by {time}."`
	Template string `json:"template,omitempty" maxLength:"100" doc:"The provider's name of the approved text; empty: the built-in key, such as won" example:"SMS_123456"`
}

// checked is what an operator has written, if it can be sent.
func (w ShopperMessageWriting) checked(p place, own texts) (text, error) {
	var flaws fault.Flaws
	body, subject := strings.TrimSpace(w.Body), strings.TrimSpace(w.Subject)
	flaws.Add(body != "", "body.body", nil, fault.T("Write a text.", "请填写文案。"))
	checkText(&flaws, "body.body", p.kind, body)
	checkText(&flaws, "body.subject", p.kind, subject)
	flaws.Add(p.channel == ChannelMail || subject == "", "body.subject", subject, fault.T("Only e-mails have a subject.", "只有邮件有标题。"))
	flaws.Add(!strings.ContainsAny(subject, "\r\n"), "body.subject", nil, fault.T("A subject is one line.", "标题只能有一行。"))
	had := own.of(p.kind, p.channel, p.language)
	t := text{Subject: subject, Body: body, Template: strings.TrimSpace(w.Template)}
	if t.Subject == "" && p.channel == ChannelMail {
		t.Subject = subjects[p.kind][p.language]
	}
	if t.Template == "" {
		t.Template = had.Template
	}
	return t, flaws.Err()
}

type writeInput struct {
	TextInput
	Body ShopperMessageWriting
}

func (s operators) putText(ctx context.Context, in *writeInput) (*httpx.Output[ShopperMessageText], error) {
	p, builtIn := in.place(), strings.TrimSpace(in.Body.Body) == ""
	own, err := s.textsNow(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	had, t := own.of(p.kind, p.channel, p.language), text{}
	if !builtIn {
		if t, err = in.Body.checked(p, own); err != nil {
			return nil, err
		}
	}
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		q := messagedb.New(tx)
		var err error
		if builtIn {
			t = texts{}.of(p.kind, p.channel, p.language)
			err = q.RemoveText(ctx, messagedb.RemoveTextParams{Kind: string(p.kind), Channel: p.channel, Language: in.Language})
		} else {
			err = q.PutText(ctx, messagedb.PutTextParams{
				Kind: string(p.kind), Channel: p.channel, Language: in.Language, Subject: t.Subject, Body: t.Body, Template: t.Template,
			})
		}
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, "message.text", strings.Join([]string{string(p.kind), p.channel, in.Language}, " "), audit.Change{Before: had, After: t})
	})
	if err != nil {
		return nil, unreachable(err)
	}
	return httpx.Answer(s.looks(p, t, builtIn)), nil
}

func (s operators) preview(_ context.Context, in *writeInput) (*httpx.Output[ShopperMessageText], error) {
	p := in.place()
	t, err := in.Body.checked(p, nil)
	if err != nil {
		return nil, err
	}
	return httpx.Answer(s.looks(p, t, false)), nil
}

// test sends a text, filled with examples, to the operator who asks.
func (s operators) test(ctx context.Context, in *TextInput) (*httpx.Output[ShopperMessageText], error) {
	p, user := in.place(), auth.From(ctx).UserID
	own, err := s.textsNow(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	reached, err := s.addresses(ctx, []string{p.channel}, []int64{user})
	if err != nil {
		return nil, unreachable(err)
	}
	if len(reached[user]) == 0 {
		return nil, errNoPhone
	}
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		return audit.Note(ctx, tx, "message.test", strings.Join([]string{string(p.kind), p.channel, in.Language}, " "), nil)
	})
	if err != nil {
		return nil, unreachable(err)
	}
	t, no := own.of(p.kind, p.channel, p.language), ids.New()
	f := sampleFacts(s.now())
	words := f.words(no, p.language, s.now(), s.deps.Zone)
	words[fillUnsubscribe] = s.unsubscribeLink(sampleUser)
	m := s.compose(t, p.kind, p.channel, p.language, words, ids.ID{})
	m.ID, m.To = no.String(), reached[user][0].address
	if err := s.deps.Channels[p.channel].Send(ctx, m); err != nil {
		return nil, err
	}
	_, written := own[p]
	return httpx.Answer(s.looks(p, t, !written)), nil
}
