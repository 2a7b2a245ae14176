package mail

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	netmail "net/mail"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	gomail "github.com/wneessen/go-mail"

	"stampede/platform/edge/outbound"
)

const (
	// sendTimeout is for a connection and a message. Servers that scan a message answer after
	// some seconds, and nobody waits for an e-mail.
	sendTimeout = 20 * time.Second
	// maxConns is how many messages are under way. Providers allow a few connections to a user.
	maxConns = 4
	// The breaker spares callers a time-out for each message while the server is away.
	breakerFailures, breakerDelay = 5, 10 * time.Second
)

// Client sends through the shop's mail server. Stop it.
type Client struct {
	*outbound.Calls
	set     Settings
	at      server
	from    *netmail.Address
	domain  string // of from
	timeout time.Duration
	tls     *tls.Config
	log     *slog.Logger

	slots chan struct{} // one for each message under way
	mu    sync.Mutex
	idle  []*session // the one that was used last is the last
}

// Deps are a client's dependencies.
type Deps struct {
	Log     *slog.Logger
	Metrics prometheus.Registerer // may be nil
	// TLS is nil but in tests, whose server has a certificate of its own; loopback has TLS then.
	TLS *tls.Config
	// Timeout is 0, for sendTimeout, but in tests.
	Timeout time.Duration
}

// New returns a client; it makes no call. Without a server in the settings Send answers
// ErrUnavailable.
func New(set Settings, deps Deps) (*Client, error) {
	timeout := cmp.Or(deps.Timeout, sendTimeout)
	c := &Client{
		Calls: outbound.NewCalls(outbound.Config{
			Peer: "smtp", Timeout: timeout, Attempts: 1, // the caller knows whether a second message would hurt
			BreakerFailures: breakerFailures, BreakerDelay: breakerDelay, Metrics: deps.Metrics,
		}),
		set: set, timeout: timeout, log: deps.Log, slots: make(chan struct{}, maxConns),
	}
	if !set.Sends() {
		return c, nil
	}
	if err := set.Check(); err != nil {
		return nil, err
	}
	c.at, _ = set.server()                         // Check has read both
	c.from, _ = netmail.ParseAddress(set.MailFrom) // as above
	c.domain = c.from.Address[strings.LastIndexByte(c.from.Address, '@')+1:]
	c.tls = &tls.Config{ServerName: c.at.host, MinVersion: tls.VersionTLS12}
	if deps.TLS != nil {
		c.tls.RootCAs, c.at.loopback = deps.TLS.RootCAs, false
	}
	return c, nil
}

var errNoServer = errors.New("mail: no --smtp-url is set")

// Send implements Sender.
func (c *Client) Send(ctx context.Context, m Message) error {
	if !c.set.Sends() {
		return ErrUnavailable.Because(errNoServer)
	}
	msg, err := c.compose(m)
	if err != nil {
		c.log.WarnContext(ctx, "e-mail refused", "message", m.ID, "error", err)
		return ErrRefused.Because(err)
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return ErrUnavailable.Because(ctx.Err())
	}
	var refused error // by a server that works
	err = c.Run(ctx, func(ctx context.Context) error {
		err := c.deliver(ctx, msg)
		if a, ok := errors.AsType[*answer](err); ok && a.aboutMessage() {
			refused = err
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		c.log.WarnContext(ctx, "e-mail not sent", "message", m.ID, "error", err)
		return ErrUnavailable.After(time.Minute).Because(err)
	case refused != nil:
		c.log.WarnContext(ctx, "e-mail refused by the server", "message", m.ID, "error", refused)
		return ErrRefused.Because(refused)
	}
	return nil
}

// messageID is what may stand in a Message-ID as it is.
var messageID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// compose writes a message. What a shopper chose, a name or an address, makes no header of
// its own: addresses are parsed, the subject is one line and encoded.
func (c *Client) compose(m Message) (*gomail.Msg, error) {
	to, err := netmail.ParseAddress(m.To)
	if err != nil || to.Address != m.To || to.Name != "" {
		return nil, errors.New("mail: what the message goes to is not an address")
	}
	id := m.ID
	if !messageID.MatchString(id) {
		sum := sha256.Sum256([]byte(id))
		id = hex.EncodeToString(sum[:])
	}
	msg := gomail.NewMsg(gomail.WithEncoding(gomail.EncodingB64), gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(c.from)
	msg.ToMailAddress(to)
	msg.Subject(strings.Join(strings.Fields(m.Subject), " "))
	msg.SetMessageIDWithValue(id + "@" + c.domain)
	msg.SetDate()
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // no out-of-office replies
	if m.Unsubscribe != "" && msg.SetListUnsubscribeOneClick(m.Unsubscribe) != nil {
		msg.SetListUnsubscribe(m.Unsubscribe) // of a shop without https
	}
	msg.SetBodyString(gomail.TypeTextPlain, strings.ReplaceAll(strings.ReplaceAll(m.Text, "\r\n", "\n"), "\n", "\r\n"))
	return msg, nil
}

// answer is what a server said to a message: its code, without its text, which repeats the
// address.
type answer struct {
	code     int    // 0: the connection broke
	enhanced string // 5.1.1, or empty
	during   gomail.SendErrReason
}

func (a *answer) Error() string {
	if a.code == 0 {
		return fmt.Sprintf("mail: the connection broke when %s", a.during)
	}
	return strings.Join(strings.Fields(fmt.Sprintf("mail: the server answered %d %s when %s", a.code, a.enhanced, a.during)), " ")
}

// aboutSession are codes above 500 that another message would be answered with too: what the
// server does not understand, and who may use it.
var aboutSession = []int{500, 502, 503, 504, 530, 534, 535, 538}

// aboutMessage reports whether the server will never take the message.
func (a *answer) aboutMessage() bool {
	return a.code >= 500 && !slices.Contains(aboutSession, a.code) &&
		(a.during == gomail.ErrSMTPRcptTo || a.during == gomail.ErrSMTPDataClose)
}
