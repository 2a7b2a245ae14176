package message

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"stampede/notify/message/internal/messagedb"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/base/plaintext"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/mail"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/wechatmsg"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

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
		Summary: "Write a text of a message", Description: "An empty body brings the built-in text back; WeChat has none, and a kind without one goes by SMS.",
	}, s.putText)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: one + "/preview", ID: "preview-message-text", Tag: "operator", Role: auth.Viewer, NoKey: "it changes nothing",
		Summary: "What a text would look like, and how many SMS it would be charged as", Audit: "message.preview",
	}, s.preview)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: one + "/test", ID: "test-message-text", Tag: "operator", Role: auth.Operator, NoKey: "a second test is a second message to the operator who asked",
		Summary: "Send the text to your own account", Audit: "message.test",
		Refuses: []*fault.Error{
			errNoAddress, errNoText, sms.ErrRefused, sms.ErrUnavailable, mail.ErrRefused, mail.ErrUnavailable, wechatmsg.ErrRefused, wechatmsg.ErrUnavailable,
		},
	}, s.test)
}

// ShopperMessageText is a text with what it looks like.
type ShopperMessageText struct {
	Kind         Kind     `json:"kind" example:"won"`
	Channel      string   `json:"channel" example:"sms"`
	Language     string   `json:"language" enum:"en,zh"`
	Body         string   `json:"body" example:"You got {item}. Pay {amount} by {time}." doc:"Empty: WeChat is not tried for this kind and language"`
	Template     string   `json:"template,omitempty" doc:"The provider's name of the approved text, which gateways get beside it; for WeChat its template's id" example:"SMS_123456"`
	BuiltIn      bool     `json:"built_in" doc:"The shop has not written one"`
	Placeholders []string `json:"placeholders" nullable:"false" doc:"What the text may be filled with" example:"[\"item\",\"amount\",\"time\"]"`
	Preview      string   `json:"preview" doc:"Filled with examples, as it is sent: with the signature, and with how to opt out where the law asks for it" example:"[Shop] You got phone. Pay ¥9.90 by 20:15."`
	Characters   int      `json:"characters" doc:"Of the preview"`
	Parts        int      `json:"parts" doc:"SMS that the preview is charged as, none by WeChat and e-mail. China's carriers count 70 characters, and 67 in each of several; so does any text with a character outside GSM's alphabet; others have 160 and 153"`
}

// sampleUser has no account: the link of a preview unsubscribes no user.
const sampleUser = 0

// sample fills a text with examples, for an address.
func (s *Service) sample(p place, t text, address string) letter {
	f := sampleFacts(s.now())
	return s.compose(p, t, &f, sampleUser, ids.ID{}, ids.New(), address)
}

// looks is a text with its preview. A Chinese one goes to China's carriers.
func (s *Service) looks(p place, t text, builtIn bool) ShopperMessageText {
	l := s.sample(p, t, [...]string{httpx.English: "", httpx.Chinese: china}[p.language])
	return ShopperMessageText{
		Kind: p.kind, Channel: p.channel, Language: languages[p.language], Body: t.Body, Template: t.Template, BuiltIn: builtIn,
		Placeholders: p.kind.fills(), Preview: l.text, Characters: utf8.RuneCountInString(l.text), Parts: l.parts,
	}
}

// show is the shop's text at a place, or the built-in one.
func (s *Service) show(own texts, p place) ShopperMessageText {
	return s.looks(p, own.of(p), !own.has(p))
}

func (s operators) listTexts(ctx context.Context, _ *noInput) (*httpx.PageOutput[ShopperMessageText], error) {
	own, err := s.readTexts(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	page := httpx.Page[ShopperMessageText]{Data: []ShopperMessageText{}}
	for _, k := range Kinds {
		for _, channel := range s.available() {
			for lang := range languages {
				page.Data = append(page.Data, s.show(own, place{k, channel, httpx.Language(lang)}))
			}
		}
	}
	return httpx.Answer(page), nil
}

// TextInput names a text. It is exported because huma requires that of embedded fields.
type TextInput struct {
	Kind     Kind   `path:"kind" enum:"reminder,won,deadline,paid,shipped,refunded,units_back,dispute"`
	Channel  string `path:"channel" enum:"wechat,wechat-mini,sms,email"`
	Language string `path:"language" enum:"en,zh"`
}

func (in *TextInput) place() place    { return placeNamed(in.Kind, in.Channel, in.Language) }
func (in *TextInput) subject() string { return string(in.Kind) + " " + in.Channel + " " + in.Language }

func (s operators) getText(ctx context.Context, in *TextInput) (*httpx.Output[ShopperMessageText], error) {
	own, err := s.readTexts(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	return httpx.Answer(s.show(own, in.place())), nil
}

// ShopperMessageWriting is a text as an operator writes it.
type ShopperMessageWriting struct {
	Body     string `json:"body" maxLength:"1000" doc:"With placeholders in braces, such as {item}; a signature of SMS and a way to opt out are added. For e-mail the first line is the subject. For WeChat a line for each field of the template, such as thing1 = {item}, and page = the page that a tap opens" example:"You got {item}. Pay {amount} by {time}."`
	Template string `json:"template,omitempty" maxLength:"100" doc:"The provider's name of the approved text; empty: the built-in key, such as won. For WeChat its template's id" example:"SMS_123456"`
}

// checked is what an operator has written, if it can be sent.
func (w ShopperMessageWriting) checked(p place, own texts) (text, error) {
	var flaws fault.Flaws
	body := strings.TrimSpace(w.Body)
	flaws.Add(body != "", "body.body", nil, fault.T("Write a text.", "请填写文案。"))
	checkText(&flaws, "body.body", p.kind, body)
	t := text{body, cmp.Or(strings.TrimSpace(w.Template), own.of(p).Template)}
	flaws.Add(!strings.ContainsFunc(t.Template, plaintext.Unruly), "body.template", nil, unruly)
	switch {
	case isWeChat(p.channel):
		checkFields(&flaws, t)
	case p.channel == channelMail:
		t.Template = ""
		flaws.Add(strings.Contains(body, "\n"), "body.body", nil, fault.T(
			"Write the subject in the first line, and the text below it.", "请在第一行填写邮件主题，从第二行起填写正文。"))
	}
	return t, flaws.Err()
}

type writeInput struct {
	TextInput
	Body ShopperMessageWriting
}

func (s operators) putText(ctx context.Context, in *writeInput) (*httpx.Output[ShopperMessageText], error) {
	p, builtIn := in.place(), strings.TrimSpace(in.Body.Body) == ""
	own, err := s.readTexts(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	had, t := own.of(p), texts{}.of(p)
	if !builtIn {
		if t, err = in.Body.checked(p, own); err != nil {
			return nil, err
		}
	}
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) (err error) {
		if q := messagedb.New(tx); builtIn {
			err = q.RemoveText(ctx, messagedb.RemoveTextParams{Kind: string(p.kind), Channel: p.channel, Language: in.Language})
		} else {
			err = q.PutText(ctx, messagedb.PutTextParams{
				Kind: string(p.kind), Channel: p.channel, Language: in.Language, Body: t.Body, Template: t.Template,
			})
		}
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, "message.text", in.subject(), audit.Change{Before: had, After: t})
	})
	if err != nil {
		return nil, unreachable(err)
	}
	s.forgetRules()
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
	own, err := s.readTexts(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	readers, err := s.readers(ctx, own, []int64{user})
	switch {
	case err != nil:
		return nil, unreachable(err)
	case own.of(p).Body == "":
		return nil, errNoText
	case readers[user][p.channel] == "":
		return nil, errNoAddress
	}
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error { return audit.Note(ctx, tx, "message.test", in.subject(), nil) })
	if err != nil {
		return nil, unreachable(err)
	}
	if err := s.deliver(ctx, s.sample(p, own.of(p), readers[user][p.channel])); err != nil {
		return nil, err
	}
	return httpx.Answer(s.show(own, p)), nil
}
