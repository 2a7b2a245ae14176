package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"slices"
	"time"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

const (
	// idleFor is how long a connection waits for another message of a burst, and
	// sessionMessages how many it takes: servers close one after some minutes or messages.
	idleFor         = 10 * time.Second
	sessionMessages = 100
	// quitTimeout is for the goodbye to a server, which changes nothing.
	quitTimeout = time.Second
)

// session is a connection to the server, used by one message at a time.
type session struct {
	conn   net.Conn
	client *gomail.Client
	smtp   *smtp.Client
	sent   int
	ended  *time.Timer // closes it while it is idle
}

// deliver sends a message over an idle connection, or another one if there is none or the
// server has closed it.
func (c *Client) deliver(ctx context.Context, msg *gomail.Msg) error {
	for s := c.take(); s != nil; s = c.take() {
		err := c.over(ctx, s, msg)
		if a, ok := errors.AsType[*answer](err); !ok || a.during != gomail.ErrConnCheck || ctx.Err() != nil {
			return err
		}
	}
	s, err := c.dial(ctx)
	if err != nil {
		return err
	}
	return c.over(ctx, s, msg)
}

// over sends a message over a connection, which it keeps or closes.
func (c *Client) over(ctx context.Context, s *session, msg *gomail.Msg) error {
	stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
	_ = s.conn.SetDeadline(time.Now().Add(c.timeout)) // the last one was its last message's
	err := s.client.SendWithSMTPClient(s.smtp, msg)
	alive := stop()
	s.sent++
	failed, _ := errors.AsType[*gomail.SendError](err)
	switch {
	case err == nil:
	case msg.IsDelivered(): // what failed came after it
		alive, err = false, nil
	case failed == nil:
		alive = false
	case failed.ErrorCode() == 0 && ctx.Err() != nil:
		alive, err = false, fmt.Errorf("mail: %w when %s", context.Cause(ctx), failed.Reason)
	default:
		a := &answer{failed.ErrorCode(), failed.EnhancedStatusCode(), failed.Reason}
		// Of a refused recipient nothing is left at the server; 421 ends the connection.
		alive, err = alive && a.during == gomail.ErrSMTPRcptTo && a.code != 0 && a.code != 421, a
	}
	if alive && s.sent < sessionMessages {
		c.keep(s)
	} else {
		s.close()
	}
	return err
}

// dial connects and logs in.
func (c *Client) dial(ctx context.Context) (*session, error) {
	s := &session{}
	var stop func() bool
	options := []gomail.Option{
		gomail.WithHELO(c.domain), gomail.WithTimeout(c.timeout), gomail.WithTLSConfig(c.tls), gomail.WithTLSPolicy(gomail.TLSMandatory),
		gomail.WithDialContextFunc(func(dialing context.Context, _, _ string) (_ net.Conn, err error) {
			if s.conn, err = new(net.Dialer).DialContext(dialing, "tcp", c.at.address()); err != nil {
				return nil, err
			}
			stop = context.AfterFunc(ctx, func() { _ = s.conn.Close() })
			if !c.at.implicit {
				return s.conn, nil
			}
			secure := tls.Client(s.conn, c.tls)
			if err := secure.HandshakeContext(dialing); err != nil {
				return nil, err
			}
			return secure, nil
		}),
	}
	if c.at.implicit || c.at.loopback {
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS)) // no STARTTLS
	}
	if c.at.user != "" {
		options = append(options, gomail.WithUsername(c.at.user), gomail.WithPassword(c.set.SMTPPassword),
			gomail.WithOpportunisticSMTPAuth(gomail.SMTPAuthPlain, gomail.SMTPAuthLogin))
	}
	var err error
	if s.client, err = gomail.NewClient(c.at.host, options...); err != nil {
		return nil, err
	}
	s.smtp, err = s.client.DialToSMTPClientWithContext(ctx)
	if stop != nil && !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return s, nil
	}
	if s.conn != nil {
		_ = s.conn.Close()
	}
	if said, ok := errors.AsType[*textproto.Error](err); ok { // its text may repeat what we sent
		return nil, fmt.Errorf("mail: the server answered %d to the login: compare --smtp-url and --smtp-password with what it expects", said.Code)
	}
	return nil, err
}

// take returns an idle connection, or nil.
func (c *Client) take() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) == 0 {
		return nil
	}
	s := c.idle[len(c.idle)-1]
	c.idle = c.idle[:len(c.idle)-1]
	s.ended.Stop() // one that fires now does not find the session
	return s
}

// keep makes a connection idle.
func (c *Client) keep(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, s)
	s.ended = time.AfterFunc(idleFor, func() {
		c.mu.Lock()
		i := slices.Index(c.idle, s)
		if i >= 0 {
			c.idle = slices.Delete(c.idle, i, i+1)
		}
		c.mu.Unlock()
		if i >= 0 {
			s.close()
		}
	})
}

// close says goodbye and hangs up.
func (s *session) close() {
	_ = s.conn.SetDeadline(time.Now().Add(quitTimeout))
	_ = s.smtp.Quit()
	_ = s.conn.Close()
}

// Stop closes the idle connections. Those that send end with their messages.
func (c *Client) Stop(context.Context) error {
	for s := c.take(); s != nil; s = c.take() {
		s.close()
	}
	return nil
}
