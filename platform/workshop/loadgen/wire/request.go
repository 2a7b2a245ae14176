package wire

import "strconv"

// AppendRequest appends a request's bytes to dst. target begins with a slash;
// token, if not empty, becomes a bearer token, and body, if not nil, a JSON
// document. Nothing is escaped or checked.
func AppendRequest(dst []byte, method, host, target, token string, body []byte) []byte {
	dst = append(append(dst, method...), ' ')
	dst = append(append(dst, target...), " HTTP/1.1\r\nHost: "...)
	dst = append(append(dst, host...), "\r\n"...)
	if token != "" {
		dst = append(append(append(dst, "Authorization: Bearer "...), token...), "\r\n"...)
	}
	switch {
	case body != nil:
		dst = append(dst, "Content-Type: application/json\r\nContent-Length: "...)
		dst = append(strconv.AppendInt(dst, int64(len(body)), 10), "\r\n"...)
	case method == "POST" || method == "PUT" || method == "PATCH":
		dst = append(dst, "Content-Length: 0\r\n"...) // RFC 9110 recommends it if a body would be usual
	}
	dst = append(dst, "\r\n"...)
	return append(dst, body...)
}
