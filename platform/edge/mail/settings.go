package mail

import (
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/url"
	"strings"

	"stampede/platform/edge/httpx"
)

// Settings are the shop's mail server.
type Settings struct {
	SMTPURL      string `name:"smtp-url" default:"" env:"STAMPEDE_SMTP_URL" help:"Mail server that e-mail is sent through, with its user: smtps://user@host:465, or smtp://user@host:587, which must offer STARTTLS unless it is on this machine. Empty: no e-mail is sent." rare:""`
	SMTPPassword string `name:"smtp-password" default:"" env:"STAMPEDE_SMTP_PASSWORD" help:"Password of that user." secret:"" rare:""`
	MailFrom     string `name:"mail-from" default:"" env:"STAMPEDE_MAIL_FROM" help:"Sender of the e-mails, with or without a name: Corner Bookstore <no-reply@shop.example>." rare:""`
}

// Sends reports whether there is a mail server.
func (s Settings) Sends() bool { return s.SMTPURL != "" }

// Check returns an error for each wrong setting.
func (s Settings) Check() error {
	var wrong []error
	if !s.Sends() {
		if s.SMTPPassword != "" {
			wrong = append(wrong, errors.New("--smtp-password needs --smtp-url, the mail server: give both or neither"))
		}
		if s.MailFrom != "" {
			wrong = append(wrong, errors.New("--mail-from needs --smtp-url, the mail server: give both or neither"))
		}
		return errors.Join(wrong...)
	}
	at, err := s.server()
	wrong = append(wrong, err)
	if err == nil && (at.user == "") != (s.SMTPPassword == "") {
		wrong = append(wrong, errors.New("--smtp-password and the user in --smtp-url belong together: give both or neither"))
	}
	if _, err := netmail.ParseAddress(s.MailFrom); err != nil {
		wrong = append(wrong, fmt.Errorf("--mail-from must be an address like no-reply@shop.example, or Corner Bookstore <no-reply@shop.example>, not %q", s.MailFrom))
	}
	return errors.Join(wrong...)
}

// server is a mail server as --smtp-url names it.
type server struct {
	host, port, user string
	// implicit is TLS from the first byte. loopback is no TLS at all: the mail stays on this
	// machine, whose certificate would be of its own making.
	implicit, loopback bool
}

func (s Settings) server() (server, error) {
	u, err := url.Parse(s.SMTPURL)
	switch {
	case err != nil, u.Scheme != "smtp" && u.Scheme != "smtps", u.Hostname() == "", strings.Trim(u.Path, "/") != "", u.RawQuery != "", u.Fragment != "":
		// It is not repeated: it may contain a password.
		return server{}, errors.New("--smtp-url must be like smtps://user@smtp.example.com:465 or smtp://user@smtp.example.com:587")
	}
	if _, has := u.User.Password(); has {
		return server{}, errors.New("--smtp-url must not contain the password: give it with --smtp-password")
	}
	at := server{host: u.Hostname(), port: u.Port(), user: u.User.Username(), implicit: u.Scheme == "smtps"}
	at.loopback = !at.implicit && httpx.Loopback(at.host)
	if at.port == "" {
		at.port = map[bool]string{true: "465", false: "587"}[at.implicit]
	}
	return at, nil
}

func (s server) address() string { return net.JoinHostPort(s.host, s.port) }
