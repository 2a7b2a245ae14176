package alarm

import (
	"errors"
	"fmt"
	"net/url"

	"stampede/platform/edge/httpx"
)

// MinSecretBytes is the least length of a webhook's secret, as of every other
// key: HMAC-SHA256 is as hard to forge as its key is to guess.
const MinSecretBytes = 32

// Webhook is where alarms are told; the zero value tells nobody.
type Webhook struct {
	URL    string `name:"alarm-webhook-url" default:"" env:"STAMPEDE_ALARM_WEBHOOK_URL" help:"Address that alarms are posted to with a signature, https:// (http:// on this machine only). Empty: none." secret:""`
	Secret string `name:"alarm-webhook-secret" default:"" env:"STAMPEDE_ALARM_WEBHOOK_SECRET" help:"Secret that signs these messages, at least 32 bytes; the receiver verifies with it." secret:""`
}

// Check returns one sentence about what is wrong with the settings.
func (w Webhook) Check() error {
	if w.URL == "" && w.Secret == "" {
		return nil
	}
	u, err := url.Parse(w.URL)
	switch {
	case w.URL == "":
		return errors.New("--alarm-webhook-secret is given without --alarm-webhook-url: give both or neither")
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return errors.New("--alarm-webhook-url must be like https://example.com/alarms, without user, password or fragment")
	case u.Scheme == "http" && !httpx.Loopback(u.Hostname()), u.Scheme != "http" && u.Scheme != "https":
		return errors.New("--alarm-webhook-url must begin with https://; http:// is for this machine only: alarms name orders and payments")
	case len(w.Secret) < MinSecretBytes:
		return fmt.Errorf("--alarm-webhook-secret must have at least %d bytes; make one with: openssl rand -hex 32", MinSecretBytes)
	}
	return nil
}
