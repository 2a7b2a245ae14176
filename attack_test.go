package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"stampede/platform/workshop/pgtest"
)

// attacked is a server with small bounds.
type attacked struct{ *instance }

// hostile opens a connection and sends some bytes, never more.
func (in attacked) hostile(t *testing.T, bytes string) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(in.url, "http://"))
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

// honest sends a request on a connection of its own.
func (in attacked) honest(t *testing.T, method, url, token, body string) (status int, said string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(raw)
}

// TestAttackIdleSockets opens three times as many connections as the server may
// have: new clients and the probe are served nevertheless, and the server closes the
// surplus.
func TestAttackIdleSockets(t *testing.T) {
	t.Parallel()
	const most = 50
	in := attacked{serveInstance(t, pgtest.DatabaseURL(t), pgtest.RedisURL(t), "--max-connections=50")}
	var hostile []net.Conn
	for range most {
		hostile = append(hostile, in.hostile(t, ""), in.hostile(t, "GET / HTTP/1.1\r\nHost: x\r\n"),
			in.hostile(t, "GET /api/v1/time HTTP/1.1\r\nHost: x\r\n\r\n"))
		if status, said := in.honest(t, http.MethodGet, in.url+"/api/v1/time", "", ""); status != http.StatusOK {
			t.Fatalf("a new client: %d %s", status, said)
		}
	}
	if status, said := in.honest(t, http.MethodGet, in.opsURL(t)+"/readyz", "", ""); status != http.StatusOK {
		t.Errorf("the probe: %d %s", status, said)
	}
	open := 0
	for _, c := range hostile {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := io.Copy(io.Discard, bufio.NewReader(c)); errors.Is(err, os.ErrDeadlineExceeded) {
			open++
		}
	}
	if open > most {
		t.Errorf("%d idle connections are open, at most %d connections may be", open, most)
	}
}
