package sms

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"time"

	"stampede/platform/edge/cloudsign"
	"stampede/platform/edge/outbound"
)

// Verdict is what a provider's answer means.
type Verdict uint8

// The verdicts. After Failed and Unclear the provider itself is in trouble.
const (
	Taken   Verdict = iota
	Refused         // it will never send this message
	Later           // it sends others: the number's limit, the balance, a template
	Failed          // it has not sent it
	Unclear         // it may have sent it
)

// Answer is a provider's answer. Code is logged, the rest of it is not: it repeats the phone.
type Answer struct {
	Code string
	Verdict
}

// API is a provider's API, over which messages go in its form.
type API struct {
	*outbound.Client
	Log *slog.Logger
	// Deduplicates means that the provider sends a message once, however often it gets its id.
	Deduplicates bool
}

// legible is what a code may be; a provider that is none could answer with the phone.
var legible = regexp.MustCompile(`^[A-Za-z0-9._-]{1,80}$`)

// Deliver makes the call that sends a message and returns Sender's errors.
func (a API) Deliver(ctx context.Context, m Message, r outbound.Request, read func(outbound.Reply) Answer) error {
	var got *Answer
	ctx, left := outbound.Watch(ctx)
	err := a.Do(ctx, r, func(reply outbound.Reply) error {
		answer := read(reply)
		if !legible.MatchString(answer.Code) {
			answer.Code = fmt.Sprintf("status %d", reply.Status)
		}
		if got = &answer; answer.Verdict == Failed || answer.Verdict == Unclear {
			return fmt.Errorf("sms: the provider answered %s", answer.Code)
		}
		return nil
	})
	switch {
	case err != nil:
		if sent := got == nil && left() || got != nil && got.Verdict == Unclear; sent && !a.Deduplicates {
			err = fmt.Errorf("%w: %w", outbound.ErrUnclear, err)
		}
		a.Log.WarnContext(ctx, "SMS not sent", "message", m.ID, "template", m.Template, "error", err)
		return ErrUnavailable.After(time.Minute).Because(err)
	case got.Verdict == Later:
		a.Log.WarnContext(ctx, "SMS not sent", "message", m.ID, "template", m.Template, "code", got.Code)
		return ErrUnavailable.After(time.Minute).Because(fmt.Errorf("sms: the provider answered %s", got.Code))
	case got.Verdict == Refused:
		a.Log.WarnContext(ctx, "SMS refused by the provider", "message", m.ID, "template", m.Template, "code", got.Code)
		return ErrRefused
	}
	return nil
}

// NoTemplate refuses a message whose text has no id at the provider.
func (a API) NoTemplate(ctx context.Context, m Message) error {
	a.Log.WarnContext(ctx, "SMS not sent: --sms-templates has no id for its text", "message", m.ID, "template", m.Template)
	return ErrRefused
}

// ProviderConfig is how a provider is reached that sends only approved texts.
type ProviderConfig struct {
	URL           string // empty: its public address
	KeyID, Secret string // of the API key
	AppID         string // Tencent Cloud's SdkAppId
	Signature     string // what each text begins with, without its brackets
	Templates     TemplateIDs
	outbound.Config
}

// Provider is a provider's API with the shop's account at it.
type Provider struct {
	API
	ProviderConfig
	Key  cloudsign.Key
	Host string           // of URL, whose path is /: both are signed
	Now  func() time.Time // dates the signatures
}

// NewProvider returns a provider, at its public address unless the settings give another. It makes no call.
func NewProvider(cfg ProviderConfig, public string, now func() time.Time, log *slog.Logger) (*Provider, error) {
	u, err := url.Parse(cmp.Or(cfg.URL, public))
	if err != nil {
		return nil, fmt.Errorf("sms: the address of the provider: %w", err)
	}
	cfg.URL = u.Scheme + "://" + u.Host + "/"
	return &Provider{
		API: API{Client: outbound.New(cfg.Config), Log: log}, ProviderConfig: cfg, Key: cloudsign.Key{ID: cfg.KeyID, Secret: cfg.Secret},
		Host: u.Host, Now: now,
	}, nil
}
