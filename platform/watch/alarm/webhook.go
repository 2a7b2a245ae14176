package alarm

import (
	"errors"
	"fmt"
	"net/url"

	"stampede/platform/edge/httpx"
)

// MinSecretBytes is the shortest webhook secret, as for every other key: HMAC-SHA256
// is as hard to forge as its key is to guess.
const MinSecretBytes = 32

// Webhook is where alarms are posted; the zero value is no webhook.
type Webhook struct {
	URL    string `name:"alarm-webhook-url" default:"" env:"STAMPEDE_ALARM_WEBHOOK_URL" help:"URL that alarms are posted to with a signature, https:// (http:// on this machine only). Empty: no webhook." secret:"" rare:""`
	Secret string `name:"alarm-webhook-secret" default:"" env:"STAMPEDE_ALARM_WEBHOOK_SECRET" help:"Secret that signs these messages, at least 32 bytes; the receiver verifies them with it." secret:"" rare:""`
}

// Check returns an error that names the wrong setting.
func (w Webhook) Check() error {
	if w.URL == "" && w.Secret == "" {
		return nil
	}
	u, err := url.Parse(w.URL)
	switch {
	case w.URL == "":
		return errors.New("--alarm-webhook-secret is set without --alarm-webhook-url: give both or neither")
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
		return errors.New("--alarm-webhook-url must be like https://example.com/alarms, without user, password or fragment")
	case u.Scheme == "http" && !httpx.Loopback(u.Hostname()), u.Scheme != "http" && u.Scheme != "https":
		return errors.New("--alarm-webhook-url must begin with https:// because alarms name orders and payments; http:// is allowed on this machine only")
	case len(w.Secret) < MinSecretBytes:
		return fmt.Errorf("--alarm-webhook-secret must have at least %d bytes; make one with: openssl rand -hex 32", MinSecretBytes)
	}
	return nil
}
