package message

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/notify/message/internal/messagedb"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

var (
	errNoMessage = fault.Plain(fault.NotFound, fault.T("There is no such message that could be sent again: it was sent, waits, or is worth nothing any more.",
		"没有可重新发送的该消息：可能已发送、正在等待，或已失去时效。"))
	errNoText = fault.New(fault.Conflict, "message-no-text", fault.T("There is no text", "没有文案"),
		fault.T("The shop has no text of this kind for WeChat in this language.", "店铺没有该语言的微信文案。"),
		fault.T("Write it, with the id of WeChat's template.", "请填写文案和微信模板 ID。"))
	errNoAddress = fault.New(fault.Conflict, "message-no-address", fault.T("The test cannot reach you", "测试消息无法送达您的账号"),
		fault.T("The test goes to your own account, which has no phone or e-mail address that the shop sends to, or has not linked WeChat in that app.",
			"测试消息会发送到您自己的账号，但该账号没有可发送的手机号或邮箱，或未在该应用中绑定微信。"),
		fault.T("Add a phone, or link WeChat. E-mail goes only to accounts of the shop's own login; try it with `stampede alarm test --to mailto:…`.",
			"请为账号绑定手机号或微信。邮件只发往商城登录的账号，可用 `stampede alarm test --to mailto:…` 测试邮件服务器。"))
)

// unreachable is the answer to a caller whose query failed.
func unreachable(err error) error { return httpx.Unreachable(fault.T("Messages", "消息"), err) }

// Routes registers the routes of operators and shoppers.
func (s *Service) Routes(rt *httpx.Router) {
	operators{s}.routes(rt)
	operators{s}.textRoutes(rt)
	shoppers{s}.routes(rt)
}

// operators is the Service as operators see it, and shoppers as shoppers do.
type (
	operators struct{ *Service }
	shoppers  struct{ *Service }
)

func (s operators) routes(rt *httpx.Router) {
	const path, rules = "/api/v1/admin/shopper-messages", "/api/v1/admin/shopper-message-rules"
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: path, ID: "list-shopper-messages", Tag: "operator", Role: auth.Viewer, Load: httpx.Costly,
		Summary: "Messages to shoppers, the newest first", Description: "`dead` ones could not be sent; they have the alarm `messages-dead`. Messages are kept for `--keep-records`.",
	}, s.list)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: path + "/days", ID: "list-shopper-message-days", Tag: "operator", Role: auth.Viewer,
		Summary: "What became of messages, by day, kind and channel", Description: "`parts` are the SMS that they are charged as.",
	}, s.days)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: path + "/{id}/redrive", ID: "redrive-shopper-message", Tag: "operator", Role: auth.Operator,
		Summary: "Send a dead message again", Audit: "message.redrive", NoKey: httpx.KeepsItsID,
	}, s.redriveOne)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: path + "/redrive", ID: "redrive-shopper-messages", Tag: "operator", Role: auth.Operator,
		Summary: "Send the dead messages of a kind again, the oldest first", Audit: "message.redrive", NoKey: httpx.KeepsItsID,
		Description: "At most 1,000 at a time. Those that have lost their worth stay dead: reminders, returned units, and what was to be paid by a time that is over. So do those that may have been sent: send each by itself.",
	}, s.redriveAll)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: rules, ID: "get-message-rules", Tag: "operator", Role: auth.Viewer, Summary: "What the shop has decided about messages to shoppers",
	}, s.getRules)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPut, Path: rules, ID: "set-message-rules", Tag: "operator", Role: auth.Admin,
		Summary: "Set the language, the budget and the quiet hours of messages", Audit: "message.rules",
	}, s.putGeneral)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPut, Path: rules + "/{kind}", ID: "set-message-rule", Tag: "operator", Role: auth.Admin,
		Summary: "Switch a kind of message on or off", Audit: "message.rules",
	}, s.putRule)
}

// ShopperMessage is a message, as operators see it.
type ShopperMessage struct {
	ID        string `json:"id" example:"0198f2c8b5d07c3e9a4f1b2c3d4e5f66"`
	Kind      Kind   `json:"kind" example:"won"`
	State     string `json:"state" enum:"waiting,sent,dead,dropped"`
	Channel   string `json:"channel,omitempty" example:"sms" doc:"Of the last attempt: sms, email, wechat (the official account) or wechat-mini (the mini program)"`
	Reason    string `json:"reason,omitempty" doc:"Of the last attempt that failed, or why it was dropped" example:"quiet hours"`
	UserID    string `json:"user_id" example:"1000123"`
	OrderNo   string `json:"order_no,omitempty"`
	Recipient string `json:"recipient,omitempty" doc:"A phone or an e-mail address, masked" example:"138****8000"`
	Parts     int32  `json:"parts" doc:"SMS that it is charged as"`
	Attempts  int32  `json:"attempts"`
	NextTryAt string `json:"next_try_at,omitempty" format:"date-time"`
	ExpiresAt string `json:"expires_at" format:"date-time" doc:"From then on it is worth nothing"`
	CreatedAt string `json:"created_at" format:"date-time"`
	UpdatedAt string `json:"updated_at" format:"date-time"`
}

func view(m messagedb.NotifyMessage) ShopperMessage {
	v := ShopperMessage{
		ID: m.ID.String(), Kind: Kind(m.Kind), State: m.State, Channel: m.Channel, Reason: m.Reason, UserID: httpx.FormatID(m.UserID),
		Recipient: m.Recipient, Parts: m.Parts, Attempts: m.Attempts,
		ExpiresAt: httpx.Moment(m.ExpiresAt), CreatedAt: httpx.Moment(m.CreatedAt), UpdatedAt: httpx.Moment(m.UpdatedAt),
	}
	if !m.OrderNo.IsZero() {
		v.OrderNo = m.OrderNo.String()
	}
	if m.State == waiting {
		v.NextTryAt = httpx.Moment(m.NextTry)
	}
	return v
}

type listInput struct {
	State   string `query:"state" enum:"waiting,sent,dead,dropped"`
	Kind    Kind   `query:"kind" enum:"reminder,won,deadline,paid,shipped,refunded,units_back,dispute"`
	OrderNo string `query:"order_no" pattern:"^([0-9a-f]{32})?$" doc:"Only those about this order; the other filters are left out"`
	httpx.ChangesInput
}

func (s operators) list(ctx context.Context, in *listInput) (*httpx.PageOutput[ShopperMessage], error) {
	q := messagedb.New(s.deps.DB)
	return httpx.PageOfChanges(in.ChangesInput, func(p httpx.PageInput) (rows []messagedb.NotifyMessage, err error) {
		before, err := p.BeforeNumber()
		if err != nil {
			return nil, err
		}
		if in.OrderNo != "" {
			no, err := ids.Parse(in.OrderNo)
			if err != nil {
				return nil, unreachable(err)
			}
			rows, err = q.MessagesOfOrder(ctx, messagedb.MessagesOfOrderParams{OrderNo: no, Before: before, Most: int32(p.Ask())}) //nolint:gosec // a page
			return rows, unreachable(err)
		}
		most := int32(p.Ask()) //nolint:gosec // a page
		switch {
		case in.Kind != "":
			states := []string{in.State}
			if in.State == "" {
				states = []string{waiting, sent, dead, dropped}
			}
			rows, err = q.MessagesOf(ctx, messagedb.MessagesOfParams{Kind: string(in.Kind), States: states, Before: before, Most: most})
		case in.State != "":
			rows, err = q.MessagesIn(ctx, messagedb.MessagesInParams{State: in.State, Before: before, Most: most})
		default:
			rows, err = q.Messages(ctx, messagedb.MessagesParams{Before: before, Most: most})
		}
		return rows, unreachable(err)
	}, func(m messagedb.NotifyMessage) time.Time { return m.UpdatedAt }, view, func(m messagedb.NotifyMessage) string { return m.ID.String() })
}

// ShopperMessageDay is what became of the messages of a kind on a day.
type ShopperMessageDay struct {
	Day     string `json:"day" format:"date" example:"2026-11-11"`
	Kind    Kind   `json:"kind" example:"won"`
	Channel string `json:"channel" example:"sms" doc:"Empty for what no channel was tried for"`
	Sent    int64  `json:"sent"`
	Parts   int64  `json:"parts"`
	Dead    int64  `json:"dead"`
	Dropped int64  `json:"dropped"`
}

type daysInput struct {
	Days int `query:"days" minimum:"1" maximum:"92" default:"7" doc:"How many, with today, by the shop's time zone"`
}

func (s operators) days(ctx context.Context, in *daysInput) (*httpx.PageOutput[ShopperMessageDay], error) {
	rows, err := messagedb.New(s.deps.DB).Days(ctx, dayOf(s.now().In(s.deps.Zone)).AddDate(0, 0, 1-in.Days))
	if err != nil {
		return nil, unreachable(err)
	}
	return httpx.PageOf(httpx.PageInput{Limit: len(rows)}, rows, func(d messagedb.NotifyMessageDay) ShopperMessageDay {
		return ShopperMessageDay{d.Day.Format(time.DateOnly), Kind(d.Kind), d.Channel, d.Sent, d.Parts, d.Dead, d.Dropped}
	}, nil), nil
}

const (
	// redriveAtMost bounds one request.
	redriveAtMost = 1000
	// againFor is how long a message is tried again that had lost its own time.
	againFor = 6 * time.Hour
)

// ShopperMessagesRedriven is how many messages are sent again.
type ShopperMessagesRedriven struct {
	Redriven int `json:"redriven"`
}

type oneInput struct {
	ID string `path:"id" maxLength:"64" doc:"The message's id"`
}

func (s operators) redriveOne(ctx context.Context, in *oneInput) (*httpx.Output[ShopperMessagesRedriven], error) {
	id, err := ids.Parse(in.ID)
	if err != nil || id.IsZero() {
		return nil, errNoMessage
	}
	out, err := s.redrive(ctx, "message "+in.ID, messagedb.RedriveParams{ID: id, AgainFor: againFor, Most: 1})
	if err == nil && out.Body.Redriven == 0 {
		return nil, errNoMessage
	}
	return out, err
}

type redriveInput struct {
	Body struct {
		Kind Kind `json:"kind" enum:"won,deadline,paid,shipped,refunded,dispute"`
	} `nameHint:"MessageRedriving"`
}

func (s operators) redriveAll(ctx context.Context, in *redriveInput) (*httpx.Output[ShopperMessagesRedriven], error) {
	return s.redrive(ctx, "messages "+string(in.Body.Kind), messagedb.RedriveParams{Kind: string(in.Body.Kind), Unclear: reasonUnclear, AgainFor: againFor, Most: redriveAtMost})
}

func (s operators) redrive(ctx context.Context, subject string, p messagedb.RedriveParams) (*httpx.Output[ShopperMessagesRedriven], error) {
	var again []ids.ID
	err := pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) (err error) {
		if again, err = messagedb.New(tx).Redrive(ctx, p); err != nil || len(again) == 0 {
			return err
		}
		return audit.Note(ctx, tx, "message.redrive", subject, map[string]any{"messages": len(again)})
	})
	if err != nil {
		return nil, unreachable(err)
	}
	return httpx.Answer(ShopperMessagesRedriven{len(again)}), nil
}

// ShopperMessageRules are the shop's rules, with the channels of the server.
type ShopperMessageRules struct {
	Rules
	Available []string `json:"available" nullable:"false" doc:"The channels that the server has, in the order in which they are tried; without one no message is made" example:"[\"wechat\",\"sms\"]"`
	Used      int64    `json:"used" doc:"SMS that were charged in the period of the budget"`
}

type noInput struct{}

func (s operators) getRules(ctx context.Context, _ *noInput) (*httpx.Output[ShopperMessageRules], error) {
	r, err := s.readRules(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	return s.shown(ctx, r)
}

func (s operators) shown(ctx context.Context, r Rules) (*httpx.Output[ShopperMessageRules], error) {
	used, err := messagedb.New(s.deps.DB).PartsSince(ctx, r.budgetFrom(s.now().In(s.deps.Zone)))
	if err != nil {
		return nil, unreachable(err)
	}
	return httpx.Answer(ShopperMessageRules{r, s.available(), used}), nil
}

type generalInput struct{ Body ShopperMessageSettings }

func (s operators) putGeneral(ctx context.Context, in *generalInput) (*httpx.Output[ShopperMessageRules], error) {
	r, err := s.change(ctx, func(r *Rules) { r.ShopperMessageSettings = in.Body })
	if err != nil {
		return nil, err
	}
	return s.shown(ctx, r)
}

type ruleInput struct {
	Kind Kind `path:"kind" enum:"reminder,won,deadline,paid,shipped,refunded,units_back,dispute"`
	Body ShopperMessageRuleSetting
}

func (s operators) putRule(ctx context.Context, in *ruleInput) (*httpx.Output[ShopperMessageRules], error) {
	rule := ShopperMessageRule{in.Kind, in.Body}
	if err := rule.check(); err != nil {
		return nil, err
	}
	r, err := s.change(ctx, func(r *Rules) {
		if i := slices.IndexFunc(r.Kinds, func(had ShopperMessageRule) bool { return had.Kind == in.Kind }); i >= 0 {
			r.Kinds[i] = rule
			return
		}
		r.Kinds = append(r.Kinds, rule)
	})
	if err != nil {
		return nil, err
	}
	return s.shown(ctx, r)
}

func (s shoppers) routes(rt *httpx.Router) {
	const me, ask = "/api/v1/me/messages", "/api/v1/items/{id}/units-back"
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: me, ID: "get-message-preferences", Tag: "shopper", Role: auth.Shopper, Load: httpx.Costly, Summary: "Which messages you get",
	}, s.preferences)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPut, Path: me, ID: "set-message-preferences", Tag: "shopper", Role: auth.Shopper, Load: httpx.Costly,
		Summary: "Choose which messages you get, and in which language", Description: "Messages about your orders always come.",
	}, s.prefer)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: ask, ID: "get-units-back", Tag: "shopper", Role: auth.Shopper, Load: httpx.Costly,
		Summary: "Whether you get a message when units of the item come back",
	}, s.asked)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPut, Path: ask, ID: "ask-units-back", Tag: "shopper", Role: auth.Shopper, Load: httpx.Costly,
		Summary: "Ask for a message when units of the item come back", Description: "It comes once, to the first who asked, some for each unit.",
	}, s.ask)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodDelete, Path: ask, ID: "take-back-units-back", Tag: "shopper", Role: auth.Shopper, Load: httpx.Costly, Status: http.StatusNoContent,
		Summary: "Take back the wish for a message when units of the item come back",
	}, s.takeBack)
	rt.Mux.Get(unsubscribePath, s.unsubscribePage)
	rt.Mux.Post(unsubscribePath, s.unsubscribe)
}

// ShopperMessagePreferences are what a shopper wants.
type ShopperMessagePreferences struct {
	Offers   bool   `json:"offers" doc:"Reminders before an opening that you have reserved, and news of returned units"`
	Language string `json:"language" enum:",en,zh" doc:"Empty: the shop's"`
}

func (s shoppers) preferences(ctx context.Context, _ *noInput) (*httpx.Output[ShopperMessagePreferences], error) {
	row, err := messagedb.New(s.deps.DB).Preferences(ctx, auth.From(ctx).UserID)
	if errors.Is(err, pgx.ErrNoRows) {
		row.Offers, err = true, nil
	}
	if err != nil {
		return nil, unreachable(err)
	}
	return httpx.Answer(ShopperMessagePreferences(row)), nil
}

type preferInput struct{ Body ShopperMessagePreferences }

func (s shoppers) prefer(ctx context.Context, in *preferInput) (*httpx.Output[ShopperMessagePreferences], error) {
	p := messagedb.PutPreferencesParams{UserID: auth.From(ctx).UserID, Offers: in.Body.Offers, Language: in.Body.Language}
	if err := messagedb.New(s.deps.DB).PutPreferences(ctx, p); err != nil {
		return nil, unreachable(err)
	}
	return httpx.Answer(in.Body), nil
}

type itemInput struct {
	ID string `path:"id" maxLength:"20" example:"42"`
}

// UnitsBackAsk is whether a shopper gets a message.
type UnitsBackAsk struct {
	Asked bool `json:"asked"`
}

func (s shoppers) asked(ctx context.Context, in *itemInput) (*httpx.Output[UnitsBackAsk], error) {
	item, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	asked, err := messagedb.New(s.deps.DB).Asked(ctx, messagedb.AskedParams{UserID: auth.From(ctx).UserID, ItemID: item})
	if err != nil {
		return nil, unreachable(err)
	}
	return httpx.Answer(UnitsBackAsk{asked}), nil
}

func (s shoppers) ask(ctx context.Context, in *itemInput) (*httpx.Output[UnitsBackAsk], error) {
	item, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	o, known := s.deps.Sale.Opening(item)
	if !known || !o.ClosesAt.After(s.now()) {
		return nil, fault.ErrNotFound
	}
	p := messagedb.AskParams{ItemID: item, UserID: auth.From(ctx).UserID, Title: o.Title, Until: o.ClosesAt}
	if err := messagedb.New(s.deps.DB).Ask(ctx, p); err != nil {
		return nil, unreachable(err)
	}
	return httpx.Answer(UnitsBackAsk{true}), nil
}

func (s shoppers) takeBack(ctx context.Context, in *itemInput) (*struct{}, error) {
	item, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	return nil, unreachable(messagedb.New(s.deps.DB).TakeBack(ctx, messagedb.TakeBackParams{UserID: auth.From(ctx).UserID, ItemID: item}))
}
