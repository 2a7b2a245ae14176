package message

import (
	"context"
	"errors"
	"strings"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/mail"
	"stampede/platform/identity/account"
	"stampede/platform/identity/sms"
)

// The channels' names.
const (
	ChannelSMS    = "sms"
	ChannelWeChat = "wechat"
	ChannelMail   = "mail"
)

// ChannelNames are all that a shop may have, in the order that is tried unless the shop says otherwise: the cheapest first.
var ChannelNames = []string{ChannelWeChat, ChannelSMS, ChannelMail}

// Text is a message on its way to one address.
type Text struct {
	ID, To        string // a channel that gets an ID twice sends it once
	Kind          Kind
	Language      httpx.Language
	Subject, Body string
	// Template is the provider's name of the text, and Params what it is filled with, in the order of the text.
	Template string
	Params   []Param
	Link     string // to the shop, or to the order there
	// Unsubscribe is an address at which a POST ends messages that are about no order; empty for those that are.
	Unsubscribe string
}

// Param is a part of a text that differs from reader to reader.
type Param struct{ Name, Value string }

// Channel carries messages. It is safe for concurrent use.
type Channel interface {
	// Addresses are where those of the users that it reaches have it.
	Addresses(ctx context.Context, users []int64) (map[int64]string, error)
	// Send returns nil once the channel has accepted the message. After an error of the kind fault.Unavailable, or one that
	// is no fault, the same message is sent again; any other fault is final for this address.
	Send(ctx context.Context, m Text) error
	// Masked is an address for people who may not see it.
	Masked(address string) string
}

// final reports whether a channel will never take the message.
func final(err error) bool {
	coded, is := errors.AsType[*fault.Error](err)
	return is && coded.Kind != fault.Unavailable
}

// SMS is the channel of phones.
type SMS struct {
	Sender sms.Sender
	// Phones returns the phones of those of the users who have one, in E.164; Reach is where the shop sends to.
	Phones func(ctx context.Context, users []int64) (map[int64]string, error)
	Reach  sms.Reach
}

// Channels are those that a shop with these accounts and senders has; a nil sender is none.
func Channels(accounts *account.Store, texts sms.Sender) map[string]Channel {
	channels := map[string]Channel{}
	if texts != nil {
		channels[ChannelSMS] = SMS{Sender: texts, Phones: accounts.PhonesOf, Reach: accounts.Config.SMSReach}
	}
	return channels
}

// Addresses implements Channel.
func (c SMS) Addresses(ctx context.Context, users []int64) (map[int64]string, error) {
	phones, err := c.Phones(ctx, users)
	for user, phone := range phones {
		if !c.Reach.Covers(phone) {
			delete(phones, user)
		}
	}
	return phones, err
}

// Send implements Channel.
func (c SMS) Send(ctx context.Context, m Text) error {
	params := make([]sms.Param, len(m.Params))
	for i, p := range m.Params {
		params[i] = sms.Param(p)
	}
	return c.Sender.Send(ctx, sms.Message{ID: m.ID, Phone: m.To, Text: m.Body, Template: m.Template, Params: params})
}

// Masked implements Channel.
func (c SMS) Masked(phone string) string { return account.Phone(phone).Masked() }

// Mail is the channel of e-mail.
type Mail struct {
	Sender mail.Sender
	// Mailboxes returns the addresses of those of the users who have one.
	Mailboxes func(ctx context.Context, users []int64) (map[int64]string, error)
}

// Addresses implements Channel.
func (c Mail) Addresses(ctx context.Context, users []int64) (map[int64]string, error) {
	return c.Mailboxes(ctx, users)
}

// Send implements Channel.
func (c Mail) Send(ctx context.Context, m Text) error {
	return c.Sender.Send(ctx, mail.Message{ID: m.ID, To: m.To, Subject: m.Subject, Text: m.Body, Unsubscribe: m.Unsubscribe})
}

// Masked implements Channel: y****@example.com.
func (c Mail) Masked(address string) string {
	name, host, _ := strings.Cut(address, "@")
	if name == "" {
		return ""
	}
	return string([]rune(name)[:1]) + "****@" + host
}
