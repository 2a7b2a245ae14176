package outbound_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"stampede/platform/edge/outbound"
	"stampede/platform/workshop/require"
)

// says answers every request on a port with bytes that need be no HTTP.
func says(t *testing.T, answer func(io.Writer)) (url string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4<<10))
			answer(conn)
			_ = conn.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

// What a peer answers with gets into logs, alarms and rows: its errors are short texts that
// Postgres can store, and its headers take little memory.
func TestAttackAnswersThatAreNoHTTP(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, answer := range map[string]func(io.Writer){
		"a NUL in a header's line": func(w io.Writer) { _, _ = io.WriteString(w, ok+"a\x00b\r\n\r\n") },
		"bytes that are no text":   func(w io.Writer) { _, _ = io.WriteString(w, ok+"\xff\x1b[2J\r\n\r\n") },
		"a NUL in the status":      func(w io.Writer) { _, _ = io.WriteString(w, "HTTP/1.1 2\x0000 OK\r\n\r\n") },
		"a line of a megabyte":     func(w io.Writer) { _, _ = io.WriteString(w, ok+strings.Repeat("x", 1<<20)+"\r\n\r\n") },
		"a header of a megabyte":   func(w io.Writer) { _, _ = io.WriteString(w, ok+"A: "+strings.Repeat("x", 1<<20)+"\r\n\r\n") },
		"a flood of interim headers": func(w io.Writer) {
			for err := error(nil); err == nil; {
				_, err = fmt.Fprintf(w, "HTTP/1.1 103 Early Hints\r\nLink: <%s>\r\n\r\n", strings.Repeat("x", 1000))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := outbound.New(outbound.Config{Peer: "test", Timeout: 5 * time.Second, Attempts: 1, MaxBytes: 100})
			t.Cleanup(c.CloseIdleConnections)
			legible(t, c.Do(t.Context(), outbound.Request{URL: says(t, answer)}, good))
		})
	}
	t.Run("a NUL in a certificate", func(t *testing.T) {
		t.Parallel()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		made := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"a\x00\x1b[2J"}}
		der, err := x509.CreateCertificate(rand.Reader, made, made, key.Public(), key)
		require.NoError(t, err)
		server := httptest.NewUnstartedServer(nil)
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}} //nolint:gosec // a test
		server.StartTLS()
		t.Cleanup(server.Close)
		c := outbound.New(outbound.Config{Peer: "test", Timeout: 5 * time.Second, Attempts: 1, MaxBytes: 100, TLS: &tls.Config{ServerName: "shop.example"}}) //nolint:gosec // a test
		err = c.Do(t.Context(), outbound.Request{URL: server.URL}, good)
		legible(t, err)
		if _, kept := errors.AsType[x509.HostnameError](err); !kept {
			t.Errorf("the cause is lost: %v", err)
		}
	})
}

// legible requires an error that is a short text.
func legible(t *testing.T, err error) {
	t.Helper()
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	if text := err.Error(); len(text) > 1000 || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		t.Errorf("an error of %d bytes: %.300q", len(text), text)
	}
}
