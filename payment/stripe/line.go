package stripe

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"stampede/platform/edge/outbound"
)

// line carries the library's requests. It sends the headers that the API needs; the
// library would also describe this machine (uname, hostname).
type line struct {
	client *outbound.Client
	url    string // what the address has before /v1; the library takes none with a path
}

// headers are what the API reads of a request.
var headers = []string{"Authorization", "Idempotency-Key", "Stripe-Version"}

// RoundTrip implements http.RoundTripper.
func (l line) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	out := outbound.Request{URL: l.url + req.URL.RequestURI(), Head: func(h http.Header) {
		for _, name := range headers {
			if v := req.Header.Get(name); v != "" {
				h.Set(name, v)
			}
		}
	}}
	if req.Method == http.MethodPost {
		out.Type, out.Body = req.Header.Get("Content-Type"), []byte{}
		if req.Body != nil {
			defer func() { _ = req.Body.Close() }()
			if out.Body, err = io.ReadAll(req.Body); err != nil {
				return nil, err
			}
		}
	}
	err = l.client.Do(req.Context(), out, func(r outbound.Reply) error {
		// 409 is a repetition that arrived while the first is under way.
		if r.Status >= http.StatusInternalServerError || r.Status == http.StatusTooManyRequests || r.Status == http.StatusConflict {
			return fmt.Errorf("status %d", r.Status)
		}
		resp = &http.Response{
			Status: http.StatusText(r.Status), StatusCode: r.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: r.Header, Body: io.NopCloser(bytes.NewReader(r.Body)), ContentLength: int64(len(r.Body)), Request: req,
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}
