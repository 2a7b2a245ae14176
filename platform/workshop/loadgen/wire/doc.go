// Package wire is an HTTP/1.1 client for load: one request at a time over one
// kept-alive TCP connection, from prepared bytes into reused buffers. It
// allocates nothing per request and costs about a third of net/http's client,
// so that on a small machine the server is measured and not its client.
//
//	conn := wire.New("127.0.0.1:8080", 5*time.Second)
//	req := wire.AppendRequest(nil, "POST", "127.0.0.1:8080", "/api/v1/rush/"+path, "", nil)
//	var resp wire.Response
//	err := conn.Do(req, &resp) // resp.Status, resp.Body, resp.RetryAfter
//
// It accepts every answer that RFC 9112 allows for such a request:
// informational ones before the final one, lengths, chunks with extensions and
// trailers, a body that ends with the connection, none at all. It does not do
// TLS, redirects, compression or cookies; use net/http for those.
//
// A Conn belongs to one goroutine; many connections are many Conns. Close is
// the exception: it may be called from any goroutine and ends the running Do.
package wire
