package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"stampede/platform/workshop/loadgen/wire"
)

// link sends the requests that a run makes by the hundred thousand: paths,
// rushes and polls. It belongs to one goroutine. The other requests, and all to
// a server behind TLS, go through net/http.
type link interface {
	// do sends one request; target begins with a slash. An error means that
	// there was no complete answer. into is reused.
	do(method, target, token string, body []byte, into *wire.Response) error
	close()
}

// newLink returns a link to the client's server that ends with ctx.
func (c *client) newLink(ctx context.Context) link {
	if c.plain == "" {
		return &tlsLink{ctx: ctx, client: c}
	}
	l := &wireLink{conn: wire.New(c.plain, requestTimeout), host: c.host}
	l.forget = context.AfterFunc(ctx, func() { _ = l.conn.Close() })
	return l
}

// wireLink is the link over plain HTTP.
type wireLink struct {
	conn    *wire.Conn
	host    string
	request []byte // reused
	forget  func() bool
}

func (l *wireLink) do(method, target, token string, body []byte, into *wire.Response) error {
	l.request = wire.AppendRequest(l.request[:0], method, l.host, target, token, body)
	return l.conn.Do(l.request, into)
}

func (l *wireLink) close() {
	l.forget()
	_ = l.conn.Close()
}

// tlsLink is the link for https.
type tlsLink struct {
	ctx    context.Context //nolint:containedctx // the link ends with it
	client *client
}

func (l *tlsLink) do(method, target, token string, body []byte, into *wire.Response) error {
	var document any
	if body != nil {
		document = json.RawMessage(body)
	}
	a, err := l.client.do(l.ctx, method, target, token, document)
	if err != nil {
		return err
	}
	*into = wire.Response{Status: a.status, Body: a.body, RetryAfter: a.retryAfter}
	return nil
}

func (*tlsLink) close() {}

// plainAddress returns the address at which wire can dial a URL's server; empty
// if it cannot.
func plainAddress(base string) (addr, host string) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" || u.Path != "" && u.Path != "/" {
		return "", ""
	}
	addr = u.Host
	if u.Port() == "" {
		addr += ":80"
	}
	return addr, u.Host
}

// codeOfAnswer returns the code of a refusal's problem document.
func codeOfAnswer(resp *wire.Response) []byte {
	if code, ok := textMember(resp.Body, `"code"`); ok && len(code) > 0 {
		return code
	}
	return strconv.AppendInt([]byte("http-"), int64(resp.Status), 10)
}

// textMember finds a string member of a JSON document without decoding the
// rest: a tenth of the work, for documents that arrive by the hundred thousand.
// name includes its quotation marks. The server's documents have no nested
// objects and no such text inside their values.
func textMember(doc []byte, name string) ([]byte, bool) {
	rest, ok := member(doc, name)
	if !ok || len(rest) == 0 || rest[0] != '"' {
		return nil, false
	}
	end := bytes.IndexByte(rest[1:], '"')
	if end < 0 || bytes.IndexByte(rest[1:1+end], '\\') >= 0 {
		return nil, false
	}
	return rest[1 : 1+end], true
}

// numberMember is textMember for a non-negative integer.
func numberMember(doc []byte, name string) (int64, bool) {
	rest, ok := member(doc, name)
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	if !ok || end == 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(rest[:end]), 10, 64)
	return n, err == nil
}

func member(doc []byte, name string) ([]byte, bool) {
	at := bytes.Index(doc, []byte(name))
	if at < 0 {
		return nil, false
	}
	rest := bytes.TrimLeft(doc[at+len(name):], " \t\r\n")
	if len(rest) == 0 || rest[0] != ':' {
		return nil, false
	}
	return bytes.TrimLeft(rest[1:], " \t\r\n"), true
}

// rushTarget is the target to which a path is sent.
func rushTarget(path string) string { return "/api/v1/rush/" + path }

// The methods of the hot requests.
const (
	get  = http.MethodGet
	post = http.MethodPost
)
