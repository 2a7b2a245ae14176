// Package plainhttp reads requests that need no HTTP library: a POST without a body whose
// header is complete, in one piece and free of anything that changes how a message is
// read. Most requests of a sale's first second are such.
//
// It reads nothing leniently and repairs nothing. What it does not understand to the
// last byte it leaves to net/http, untouched: so there is no request that the two
// understand differently, which is what request smuggling lives on. A fuzz test
// compares them.
package plainhttp

import (
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Request is what a handler may know of a plain request.
type Request struct {
	Path           string // of letters, digits, / - and _, without a query
	AcceptLanguage string
	RequestID      string // of X-Request-Id
	Origin         bool   // whether a page of some origin sent it
}

// Method begins every plain request.
const Method = "POST "

const version = " HTTP/1.1\r\n"

// Read reads the request at the beginning of s and returns its length in bytes, or 0
// unless it is plain.
func (r *Request) Read(s string) int {
	*r = Request{}
	head, ok := strings.CutPrefix(s, Method)
	if !ok {
		return 0
	}
	end := strings.IndexFunc(head, func(c rune) bool { return !inPath(c) })
	if end < 1 || head[0] != '/' {
		return 0
	}
	r.Path = head[:end]
	rest, ok := strings.CutPrefix(head[end:], version)
	if !ok {
		return 0
	}
	var seen lines
	for {
		line, after, ok := strings.Cut(rest, "\n")
		line, crlf := strings.CutSuffix(line, "\r")
		if rest = after; !ok || !crlf {
			return 0 // incomplete, or a line that ends in a bare line feed
		}
		if line == "" {
			break
		}
		if !r.take(line, &seen) {
			return 0
		}
	}
	if !seen.host {
		return 0
	}
	return len(s) - len(rest)
}

// lines are those of a header that may be there once.
type lines struct{ host, language, id bool }

// take takes one line of the header, unless it is more than plain. It judges names and
// values as net/http does.
func (r *Request) take(line string, seen *lines) bool {
	name, value, ok := strings.Cut(line, ":")
	if value = strings.Trim(value, " \t"); !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return false
	}
	is := func(other string) bool { return strings.EqualFold(name, other) }
	once := func(seen *bool) bool {
		first := !*seen
		*seen = true
		return first
	}
	// The length tells most names apart from those that matter.
	switch len(name) {
	case len("TE"):
		return !is("TE")
	case len("Host"):
		return !is("Host") || once(&seen.host) && value != "" && httpguts.ValidHostHeader(value)
	case len("Expect"): // and Origin
		r.Origin = r.Origin || is("Origin")
		return !is("Expect")
	case len("Upgrade"): // and Trailer
		return !is("Upgrade") && !is("Trailer")
	case len("Connection"):
		return !is("Connection") || value == "" || strings.EqualFold(value, "keep-alive")
	case len("X-Request-Id"):
		if is("X-Request-Id") {
			r.RequestID = value
			return once(&seen.id)
		}
	case len("Content-Length"):
		return !is("Content-Length") || value == "0"
	case len("Accept-Language"):
		if is("Accept-Language") {
			r.AcceptLanguage = value
			return once(&seen.language)
		}
	case len("Transfer-Encoding"):
		return !is("Transfer-Encoding")
	}
	return true
}

func inPath(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '/' || c == '-' || c == '_'
}
