// Package smtptest is a mail server on loopback for tests: TLS from the first byte or by
// STARTTLS, a login, the messages it took, and faults.
package smtptest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/mail"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"stampede/platform/workshop/require"
)

// The login of each server.
const (
	User     = "shop"
	Password = "the mail server's password"
)

// Server is a mail server. Change its hooks before the first message.
type Server struct {
	Address string // host:port
	CA      *x509.CertPool
	// Rcpt and Data answer a recipient and a message, and may be nil. An error that is no
	// *smtp.SMTPError is answered with 451.
	Rcpt func(to string) error
	Data func(conn net.Conn) error
	// Taken answers a message that was taken, and may be nil: what breaks the connection loses the answer.
	Taken func(conn net.Conn) error

	mu       sync.Mutex
	got      []Got
	sessions int
}

// Got is a message that was taken.
type Got struct {
	From, To string // of the envelope
	*mail.Message
	Raw []byte
}

// New starts a server that ends with the test. implicit is TLS from the first byte.
func New(t testing.TB, implicit bool) *Server {
	t.Helper()
	s := &Server{}
	cert := s.certificate(t)
	srv := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sessions++
		return &session{server: s, conn: c.Conn()}, nil
	}))
	srv.Domain, srv.TLSConfig = "127.0.0.1", &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	srv.ErrorLog = silent{}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.Address = l.Addr().String()
	if implicit {
		l = tls.NewListener(l, srv.TLSConfig)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	return s
}

// Got returns the messages so far.
func (s *Server) Got() []Got {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// Sessions returns how many connections there were.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions
}

func (s *Server) certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, of, of, key.Public(), key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(raw)
	require.NoError(t, err)
	s.CA = x509.NewCertPool()
	s.CA.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

// silent drops what the server says about broken connections, which the tests break.
type silent struct{}

func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

type session struct {
	server   *Server
	conn     net.Conn
	known    bool
	from, to string
}

func (*session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != User || password != Password {
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "no login as " + user + " with " + password}
		}
		s.known = true
		return nil
	}), nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if !s.known {
		return &smtp.SMTPError{Code: 530, EnhancedCode: smtp.EnhancedCode{5, 7, 0}, Message: "log in"}
	}
	s.from = from
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	if s.server.Rcpt != nil {
		return s.server.Rcpt(to)
	}
	return nil
}

func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if s.server.Data != nil {
		if err := s.server.Data(s.conn); err != nil {
			return err
		}
	}
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	s.server.mu.Lock()
	s.server.got = append(s.server.got, Got{From: s.from, To: s.to, Message: m, Raw: raw})
	s.server.mu.Unlock()
	if s.server.Taken != nil {
		return s.server.Taken(s.conn)
	}
	return nil
}

func (s *session) Reset()        { s.from, s.to = "", "" }
func (s *session) Logout() error { return nil }
