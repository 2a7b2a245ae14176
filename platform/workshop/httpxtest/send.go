package httpxtest

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Dial connects to a server from an address of the loopback network and sends some
// bytes. The connection ends with the test; its reads and writes fail after 30 s.
func Dial(t testing.TB, server, from, bytes string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(c, bytes); err != nil {
		t.Fatal(err)
	}
	return c
}

// Send sends a request to a server and returns the answer; an empty host is the URL's.
// header holds names and values in turn, and is without those whose value is empty.
func Send(t testing.TB, method, url, host, body string, header ...string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	for n := 0; n+1 < len(header); n += 2 {
		if header[n+1] != "" {
			req.Header.Set(header[n], header[n+1])
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}
