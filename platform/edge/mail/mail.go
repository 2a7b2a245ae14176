// Package mail sends e-mails, one message to one address at a time, through the shop's mail
// server.
//
// Client keeps the connections of a burst. The password goes over TLS only, to a server with
// a valid certificate; an own authority's is read from SSL_CERT_FILE. A message that the
// server has taken whole but not confirmed may arrive although Send failed: a second one with
// the same ID is shown once by most mail programs.
//
// Neither the address nor the text is logged, and of a server's answer only its code, because
// its text repeats them. Package smtptest is a mail server for tests.
package mail

import (
	"context"

	"stampede/platform/base/fault"
)

// Message is one e-mail of plain text.
type Message struct {
	// ID becomes the Message-ID, so that mail programs show a message that was sent twice once.
	ID string
	// To is where it goes, without a name: yan@example.com.
	To      string
	Subject string
	Text    string
	// Unsubscribe is where a mail program posts when its reader wants no more such messages (RFC 8058). Empty: nowhere.
	Unsubscribe string
}

// Sender sends messages. It returns nil once the server has accepted a message, which does not mean that it was
// delivered; else ErrUnavailable, after which the same message may be sent again, or ErrRefused. It is safe for
// concurrent use.
type Sender interface {
	Send(ctx context.Context, m Message) error
}

// A sender's errors.
var (
	ErrUnavailable = fault.New(fault.Unavailable, "mail-unavailable",
		fault.T("E-mail cannot be sent right now", "邮件暂时无法发送"),
		fault.T("The mail server does not take e-mail right now.", "邮件服务器暂时不接收邮件。"),
		fault.T("Try again in a minute.", "请一分钟后重试。"))
	ErrRefused = fault.New(fault.Invalid, "mail-refused", fault.T("E-mail cannot be sent to this address", "无法向该邮箱发送邮件"),
		fault.T("The mail server does not send to this address.", "邮件服务器拒绝向该邮箱发送。"),
		fault.T("Check the address, or use another one.", "请核对邮箱地址，或更换邮箱。"))
)
