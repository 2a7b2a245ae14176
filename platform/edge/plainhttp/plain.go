// Package plainhttp reads requests that need no HTTP library: a POST without a body whose
// header is complete, in one piece and free of anything that changes how a message is
// read. Most requests of a sale's first second are such.
//
// It reads nothing leniently and repairs nothing. What it does not understand to the
// last byte it leaves to net/http, untouched: so there is no request that the two
// understand differently, which is what request smuggling lives on. A fuzz test
// compares them.
package plainhttp

import "bytes"

// Request is what a handler may know of a plain request. The slices point into the
// bytes that were read.
type Request struct {
	Path           []byte // of letters, digits, / - and _, without a query
	AcceptLanguage []byte // nil without this header
	RequestID      []byte // of X-Request-Id
	Origin         bool   // whether a page of some origin sent it
}

const (
	method  = "POST "
	version = " HTTP/1.1\r\n"
)

// Read reads the request at the beginning of b and returns its length in bytes, or 0
// unless it is plain.
func (r *Request) Read(b []byte) int {
	*r = Request{}
	if len(b) < len(method) || string(b[:len(method)]) != method {
		return 0
	}
	end := len(method)
	for end < len(b) && inPath[b[end]] {
		end++
	}
	r.Path = b[len(method):end]
	if len(r.Path) == 0 || r.Path[0] != '/' || len(b)-end < len(version) || string(b[end:end+len(version)]) != version {
		return 0
	}
	at, hosts := end+len(version), 0
	for {
		n := bytes.IndexByte(b[at:], '\n')
		if n < 1 || b[at+n-1] != '\r' {
			return 0 // incomplete, or a line that ends in a bare line feed
		}
		line := b[at : at+n-1]
		at += n + 1
		if len(line) == 0 {
			break
		}
		if !r.take(line, &hosts) {
			return 0
		}
	}
	if hosts != 1 {
		return 0
	}
	return at
}

// take takes one line of the header, unless it is more than plain.
func (r *Request) take(line []byte, hosts *int) bool {
	colon := 0
	for colon < len(line) && inName[line[colon]] {
		colon++
	}
	if colon == 0 || colon == len(line) || line[colon] != ':' {
		return false
	}
	value := bytes.Trim(line[colon+1:], " \t")
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	// The length tells most names apart from those that matter.
	switch name := line[:colon]; len(name) {
	case len("TE"):
		return !is(name, "te")
	case len("Host"):
		if is(name, "host") {
			*hosts++
			return allIn(value, &inHost)
		}
	case len("Expect"):
		return !is(name, "expect") && (!is(name, "origin") || r.origin())
	case len("Upgrade"):
		return !is(name, "upgrade") && !is(name, "trailer")
	case len("Connection"):
		return !is(name, "connection") || len(value) == 0 || is(value, "keep-alive")
	case len("X-Request-Id"):
		return !is(name, "x-request-id") || once(&r.RequestID, value)
	case len("Content-Length"):
		return !is(name, "content-length") || string(value) == "0"
	case len("Accept-Language"):
		return !is(name, "accept-language") || once(&r.AcceptLanguage, value)
	case len("Transfer-Encoding"):
		return !is(name, "transfer-encoding")
	}
	return true
}

func (r *Request) origin() bool {
	r.Origin = true
	return true
}

// once keeps a value unless there is one already: several lines are a list.
func once(kept *[]byte, value []byte) bool {
	if *kept != nil {
		return false
	}
	if *kept = value; value == nil {
		*kept = none
	}
	return true
}

var none = []byte{}

// is reports whether b is a lower-case text, in any case.
func is(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func allIn(b []byte, class *[256]bool) bool {
	for _, c := range b {
		if !class[c] {
			return false
		}
	}
	return len(b) > 0
}

const alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

var (
	inPath = classOf(alphanumeric + "/-_")
	inHost = classOf(alphanumeric + ".-:[]_")
	inName = classOf(alphanumeric + "!#$%&'*+-.^_`|~") // a token of RFC 9110, 5.6.2
)

func classOf(characters string) (class [256]bool) {
	for i := range len(characters) {
		class[characters[i]] = true
	}
	return class
}
