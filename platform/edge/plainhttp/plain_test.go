package plainhttp

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"stampede/platform/workshop/require"
)

const (
	first  = "POST /api/v1/rush/AZ-_9 HTTP/1.1\r\n"
	host   = "Host: sale.example.com:8080\r\n"
	browse = "User-Agent: Mozilla/5.0 (X11; Linux)\r\nAccept: */*\r\nAccept-Language: zh-CN,zh;q=0.9\r\n" +
		"Origin: https://sale.example.com\r\nX-Request-Id: abc\r\nCookie: a=b; c=\"d\"\r\nconnection: Keep-Alive\r\ncontent-length: 0\r\n"
)

func TestPlainRequest(t *testing.T) {
	t.Parallel()
	var r Request
	all := first + host + browse + "\r\n"
	require.Equal(t, "length", r.Read(all+first), len(all))
	require.Equal(t, "path", r.Path, "/api/v1/rush/AZ-_9")
	require.Equal(t, "language", r.AcceptLanguage, "zh-CN,zh;q=0.9")
	require.Equal(t, "id", r.RequestID, "abc")
	require.Equal(t, "origin", r.Origin, true)
	require.Equal(t, "least", r.Read(first+"host:x\r\n\r\n"), len(first)+10)
	require.Equal(t, "nothing of the last one", r.RequestID == "" && !r.Origin, true)
}

// unusual are requests that are left to net/http, which answers some and refuses others.
var unusual = []string{
	"", "POST", first, first + host, first + "\r\n", first + host + host + "\r\n",
	first + "Host:\r\n\r\n", first + "Host: a b\r\n\r\n",
	"GET /api HTTP/1.1\r\n" + host + "\r\n", "post /api HTTP/1.1\r\n" + host + "\r\n",
	"POST /api HTTP/1.0\r\n" + host + "\r\n", "POST  /api HTTP/1.1\r\n" + host + "\r\n", "POST /api  HTTP/1.1\r\n" + host + "\r\n",
	"POST /api?x=1 HTTP/1.1\r\n" + host + "\r\n", "POST /a%2Fb HTTP/1.1\r\n" + host + "\r\n", "POST /a/../b HTTP/1.1\r\n" + host + "\r\n",
	"POST http://x/api HTTP/1.1\r\n" + host + "\r\n", "POST api HTTP/1.1\r\n" + host + "\r\n", "POST /api HTTP/1.1\n" + host + "\r\n",
	first + "Host: x\n\r\n", first + host + "\n", first + host + "A: b\r\n c\r\n\r\n", first + host + "A : b\r\n\r\n", first + host + ": b\r\n\r\n",
	first + host + "A\r\n\r\n", first + host + "A: b\rc\r\n\r\n", first + host + "A: \x00\r\n\r\n", first + host + "A: b\r\r\n\r\n",
	first + host + "Content-Length: 1\r\n\r\n{", first + host + "Content-Length: +0\r\n\r\n", first + host + "Content-Length: 0, 0\r\n\r\n",
	first + host + "Content-Length: 00\r\n\r\n", first + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", first + host + "transfer-encoding: identity\r\n\r\n",
	first + host + "Expect: 100-continue\r\n\r\n", first + host + "Upgrade: h2c\r\n\r\n", first + host + "Trailer: X\r\n\r\n", first + host + "TE: trailers\r\n\r\n",
	first + host + "Connection: close\r\n\r\n", first + host + "Connection: keep-alive, close\r\n\r\n",
	first + host + "X-Request-Id: a\r\nx-request-id: b\r\n\r\n", first + host + "X-Request-Id:\r\nX-Request-Id: b\r\n\r\n",
	first + host + "Accept-Language: \r\nAccept-Language: zh\r\n\r\n", first + host + "Accept-Language: zh\r\nAccept-Language: en\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}

func TestUnusualRequestsAreLeftToNetHTTP(t *testing.T) {
	t.Parallel()
	for _, b := range unusual {
		require.Equal(t, b, new(Request).Read(b), 0)
	}
}

// A plain request, wherever it ends, is the same one to net/http: no client can make
// the two disagree on where a request ends or on what it asks for.
func FuzzPlainRequestsAreTheSameToNetHTTP(f *testing.F) {
	for _, b := range append(unusual, first+host+browse+"\r\n", first+host+"\r\n"+first) {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Request
		n := r.Read(string(b))
		if n == 0 {
			return
		}
		rest := bufio.NewReaderSize(bytes.NewReader(b), 1<<16)
		req, err := http.ReadRequest(rest)
		require.NoError(t, err)
		body, err := io.ReadAll(req.Body)
		require.NoError(t, err)
		after, err := io.ReadAll(rest)
		require.NoError(t, err)
		require.Equal(t, "bytes after it", string(after), string(b[n:]))
		require.Equal(t, "body", len(body), 0)
		require.Equal(t, "method", req.Method, http.MethodPost)
		require.Equal(t, "path", req.URL.Path+req.URL.RawQuery+req.URL.RawPath, r.Path)
		require.Equal(t, "proto", req.Proto, "HTTP/1.1")
		require.Equal(t, "close", req.Close, false)
		require.Equal(t, "language", strings.Join(req.Header["Accept-Language"], ","), r.AcceptLanguage)
		require.Equal(t, "id", req.Header.Get("X-Request-Id"), r.RequestID)
		require.Equal(t, "origin", len(req.Header["Origin"]) > 0, r.Origin)
		require.Equal(t, "hop by hop", len(req.TransferEncoding)+len(req.Trailer)+len(req.Header["Upgrade"])+len(req.Header["Expect"]), 0)
	})
}
