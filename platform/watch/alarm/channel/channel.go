// Package channel sends short messages to the people on call: to groups of WeCom, DingTalk,
// Feishu (Lark) and Slack, to e-mail addresses and to phones.
//
// # Addresses
//
// An address is a URL with everything in it that a message needs, so it is a secret:
//
//	wecom://KEY                       the key of the robot's webhook
//	dingtalk://TOKEN?secret=SEC…      its access_token, and the secret of 加签
//	feishu://TOKEN?secret=…           what follows /hook/, and the secret of 签名校验; lark:// outside China
//	slack://T…/B…/…                   what follows /services/
//	mailto:ops@example.com
//	sms:+8613800138000
//
// severity=critical leaves warnings out. via=https://… posts to another host than the
// provider's: a private deployment, or a gateway of the shop's own. An address has a name
// without secrets, such as wecom-3f2a91cc, for rows, metrics and people.
//
// # Answers
//
// The groups' robots answer 200 with a code in the body. A refusal says what the operator
// should do; after any of them the same message may be sent again, because an operator
// repairs most of them at the provider. Throttled tells those that only need time.
//
// # No library
//
// shoutrrr 0.13 has neither DingTalk nor SMS, takes no context, and brings the codes only
// as text. What is here of the other services is 40 lines.
package channel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	netmail "net/mail"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/edge/httpx"
	"stampede/platform/edge/mail"
	"stampede/platform/edge/outbound"
	"stampede/platform/edge/sms"
)

// Message is what a channel sends. Each uses what it has room for.
type Message struct {
	// ID is the same when a message is sent again.
	ID    string
	Title string // one line
	Text  string // some lines below it
	Link  string
	// Short is the whole for an SMS, and Template and Params are the same for providers of templates.
	Short, Template string
	Params          []sms.Param
	// Urgent mentions everybody in a group, which rings also where it is muted.
	Urgent bool
}

// Address is where messages go. Make it with Parse.
type Address struct {
	// Name identifies the address and contains no secret.
	Name string
	// CriticalOnly means that the address gets no warnings.
	CriticalOnly bool

	kind       string
	to, secret string
	host       string
}

// The kinds of addresses that are no robots.
const (
	kindMail = "mailto"
	kindSMS  = "sms"
)

// examples are the addresses that a wrong one is compared with.
const examples = "wecom://KEY, dingtalk://TOKEN?secret=SEC…, feishu://TOKEN?secret=…, lark://TOKEN?secret=…, slack://T…/B…/…, mailto:ops@example.com or sms:+8613800138000"

var (
	phone = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)
	// token has no characters that would end a path or a query.
	token = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	three = regexp.MustCompile(`^[A-Za-z0-9]+/[A-Za-z0-9]+/[A-Za-z0-9]+$`)
)

// Parse parses an address. Its errors continue "must be" and repeat nothing of it.
func Parse(raw string) (Address, error) {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.Fragment != "" {
		return Address{}, fmt.Errorf("must be an address such as %s", examples)
	}
	query := u.Query()
	a := Address{kind: u.Scheme, to: u.Opaque + u.Host + u.Path, secret: query.Get("secret"), host: strings.TrimSuffix(query.Get("via"), "/")}
	robot := robots[a.kind]
	switch severity := query.Get("severity"); {
	case robot == nil && a.kind != kindMail && a.kind != kindSMS:
		return Address{}, fmt.Errorf("must be an address such as %s", examples)
	case severity != "" && severity != "critical" && severity != "warning":
		return Address{}, fmt.Errorf("must have severity=critical or severity=warning, or neither, in the address of kind %s", a.kind)
	default:
		a.CriticalOnly = severity == "critical"
	}
	for _, name := range []string{"severity", "secret", "via"} {
		query.Del(name)
	}
	mailbox, err := netmail.ParseAddress(a.to)
	switch {
	case len(query) > 0:
		return Address{}, fmt.Errorf("must have no other parameter than severity, secret and via in the address of kind %s; write & and %% of a secret as %%26 and %%25", a.kind)
	case a.kind == kindMail && (err != nil || mailbox.Address != a.to),
		a.kind == kindSMS && !phone.MatchString(a.to),
		a.kind == "slack" && !three.MatchString(a.to),
		robot != nil && a.kind != "slack" && !token.MatchString(a.to):
		return Address{}, fmt.Errorf("must be complete in the address of kind %s, such as %s", a.kind, examples)
	case a.secret != "" && (robot == nil || !robot.signs):
		return Address{}, fmt.Errorf("must have no secret= in the address of kind %s, which signs nothing", a.kind)
	case a.host != "" && (robot == nil || !httpx.Private(a.host)):
		return Address{}, fmt.Errorf("must have via=https://… for a robot only, or http:// on this machine, in the address of kind %s", a.kind)
	case robot != nil:
		a.host = cmp.Or(a.host, robot.host)
	}
	sum := sha256.Sum256([]byte(a.kind + " " + a.host + " " + a.to))
	a.Name = strings.Replace(a.kind, kindMail, "mail", 1) + "-" + hex.EncodeToString(sum[:4])
	return a, nil
}

// Deps are what sends messages for the channels.
type Deps struct {
	Mail mail.Sender // nil: mailto: cannot be used
	SMS  sms.Sender  // nil: sms: cannot be used
	// Metrics may be nil.
	Metrics prometheus.Registerer
}

// Timeout bounds one attempt, including the answer.
const Timeout = 10 * time.Second

// answerBytes is far above a robot's answer.
const answerBytes = 2 << 10

// Channel sends to one address. Safe for concurrent use.
type Channel struct {
	Address

	deps   Deps
	client *outbound.Client
}

// Open returns the channel of an address. It makes no call.
func Open(a Address, deps Deps) (*Channel, error) {
	switch {
	case a.kind == kindMail && deps.Mail == nil:
		return nil, fmt.Errorf("%s: no mail server is set: name it with --smtp-url", a.Name)
	case a.kind == kindSMS && deps.SMS == nil:
		return nil, fmt.Errorf("%s: nothing sends SMS: name a gateway with --sms-gateway-url", a.Name)
	}
	return &Channel{Address: a, deps: deps, client: outbound.New(outbound.Config{
		Peer: "alarm-" + a.kind, Timeout: Timeout, Attempts: 1, Conns: 1, MaxBytes: answerBytes, Metrics: deps.Metrics,
	})}, nil
}

// Close closes the channel's connections.
func (c *Channel) Close() { c.client.CloseIdleConnections() }

// Send makes one attempt and returns the provider's answer.
func (c *Channel) Send(ctx context.Context, m Message) (answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	switch c.kind {
	case kindMail:
		return "accepted", c.deps.Mail.Send(ctx, mail.Message{ID: m.ID, To: c.to, Subject: m.Title, Text: m.Text + "\n\n" + m.Link + "\n"})
	case kindSMS:
		return "accepted", c.deps.SMS.Send(ctx, sms.Message{ID: m.ID, Phone: c.to, Text: m.Short, Template: m.Template, Params: m.Params})
	}
	return c.post(ctx, m)
}
