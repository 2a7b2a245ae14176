package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"
)

const (
	// maxHeaderBytes bounds the head of an answer; servers refuse requests
	// above half of that.
	maxHeaderBytes = 64 << 10
	// maxBodyBytes bounds a body: far above any API document, and small enough
	// that a thousand connections fit in memory.
	maxBodyBytes = 8 << 20
	// maxInformational bounds the 1xx answers before the final one.
	maxInformational = 16
)

// ErrMalformed is part of every error about an answer that is not HTTP/1.1, or
// is above a bound.
var ErrMalformed = errors.New("malformed answer")

// Response is an answer. The zero value is ready to use; a reused one keeps its
// memory, so Body is valid until the next Do into it.
type Response struct {
	Status int
	Body   []byte
	// RetryAfter is the value of the header of that name; 0 if it is missing or
	// unreadable.
	RetryAfter time.Duration
	// Close says that the server closes the connection after this answer.
	Close bool
}

// head is an answer header's information about the body.
type head struct {
	length  int64 // −1: unknown
	chunked bool
	coded   bool // an unsupported transfer coding
	old     bool // HTTP/1.0, which has no transfer codings
}

// read reads one final answer.
func (r *Response) read(in *bufio.Reader, noBody bool) error {
	for range maxInformational {
		h, err := r.readHead(in)
		if err != nil {
			return err
		}
		if r.Status >= 200 {
			return r.readBody(in, h, noBody)
		}
		if r.Status == http.StatusSwitchingProtocols {
			return fmt.Errorf("the server switched to a protocol that was not requested: %w", ErrMalformed)
		}
	}
	return fmt.Errorf("more than %d informational answers: %w", maxInformational, ErrMalformed)
}

// readHead reads a status line and the header after it.
func (r *Response) readHead(in *bufio.Reader) (head, error) {
	h := head{length: -1}
	r.RetryAfter, r.Body = 0, r.Body[:0]
	line, size, err := readLine(in)
	if err != nil {
		return h, err
	}
	// "HTTP/1.1 202 Accepted"; the reason may be missing, and so may the space
	// before it.
	if len(line) < 12 || string(line[:7]) != "HTTP/1." || (line[7] != '0' && line[7] != '1') || line[8] != ' ' ||
		len(line) > 12 && line[12] != ' ' {
		return h, fmt.Errorf("status line %.40q: %w", line, ErrMalformed)
	}
	status, ok := digits(line[9:12])
	if !ok || status < 100 {
		return h, fmt.Errorf("status line %.40q: %w", line, ErrMalformed)
	}
	h.old = line[7] == '0'
	r.Status, r.Close = int(status), h.old
	for total := size; ; total += size {
		line, size, err = readLine(in)
		switch {
		case err != nil:
			return h, err
		case total+size > maxHeaderBytes:
			return h, fmt.Errorf("header above %d bytes: %w", maxHeaderBytes, ErrMalformed)
		case len(line) == 0:
			return h, nil
		}
		if err := r.field(&h, line); err != nil {
			return h, err
		}
	}
}

// field records a header field that matters here.
func (r *Response) field(h *head, line []byte) error {
	colon := bytes.IndexByte(line, ':')
	if colon < 1 || line[0] == ' ' || line[0] == '\t' || line[colon-1] == ' ' || line[colon-1] == '\t' {
		return fmt.Errorf("header field %.40q: %w", line, ErrMalformed)
	}
	name, value := line[:colon], trim(line[colon+1:])
	// Comparing the length of the name excludes nearly every other field.
	switch len(name) {
	case len("Content-Length"):
		if !equalFold(name, "content-length") {
			return nil
		}
		n, ok := digits(value)
		if !ok || h.length >= 0 && h.length != n {
			return fmt.Errorf("Content-Length %.40q: %w", value, ErrMalformed)
		}
		h.length = n
	case len("Transfer-Encoding"):
		if !equalFold(name, "transfer-encoding") {
			return nil
		}
		h.coded = h.coded || h.chunked || !equalFold(value, "chunked")
		h.chunked = true
	case len("Connection"), len("Retry-After"):
		switch {
		case equalFold(name, "connection"):
			r.connection(value)
		case equalFold(name, "retry-after"):
			r.RetryAfter = retryAfter(value)
		}
	}
	return nil
}

// connection reads the list of a Connection field.
func (r *Response) connection(value []byte) {
	for len(value) > 0 {
		var one []byte
		one, value, _ = bytes.Cut(value, []byte{','})
		switch one = trim(one); {
		case equalFold(one, "close"):
			r.Close = true
		case equalFold(one, "keep-alive") && r.Close:
			r.Close = false // an answer in HTTP/1.0 that keeps the connection
		}
	}
}

// retryAfter reads seconds or a date.
func retryAfter(value []byte) time.Duration {
	if n, ok := digits(value); ok {
		return time.Duration(min(n, int64(math.MaxInt64/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(string(value)); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// readBody reads the body that the head announces.
func (r *Response) readBody(in *bufio.Reader, h head, noBody bool) error {
	switch {
	case noBody || r.Status == http.StatusNoContent || r.Status == http.StatusNotModified:
		return nil
	case h.coded, h.chunked && h.old: // RFC 9112 declares this framing faulty
		return fmt.Errorf("a transfer coding that was not requested: %w", ErrMalformed)
	case h.chunked: // it overrides Content-Length
		return r.readChunks(in)
	case h.length >= 0:
		return r.readPart(in, h.length)
	default:
		r.Close = true
		return r.readRest(in)
	}
}

// readPart appends the next n bytes to the body.
func (r *Response) readPart(in *bufio.Reader, n int64) error {
	have := len(r.Body)
	if n > int64(maxBodyBytes-have) {
		return fmt.Errorf("body above %d bytes: %w", maxBodyBytes, ErrMalformed)
	}
	if need := have + int(n); need <= cap(r.Body) {
		r.Body = r.Body[:need]
	} else {
		r.Body = append(r.Body, make([]byte, n)...)
	}
	_, err := io.ReadFull(in, r.Body[have:])
	return whole(err)
}

// readChunks reads a chunked body and its trailers, which are ignored.
func (r *Response) readChunks(in *bufio.Reader) error {
	for {
		line, _, err := readLine(in)
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(line, []byte{';'}) // extensions are ignored
		n, err := strconv.ParseUint(string(trim(size)), 16, 31)
		if err != nil {
			return fmt.Errorf("chunk size %.40q: %w", line, ErrMalformed)
		}
		if n == 0 {
			return skipTrailers(in)
		}
		if err := r.readPart(in, int64(n)); err != nil {
			return err
		}
		if line, _, err = readLine(in); err != nil {
			return err
		}
		if len(line) != 0 {
			return fmt.Errorf("a chunk is longer than its size: %w", ErrMalformed)
		}
	}
}

func skipTrailers(in *bufio.Reader) error {
	for total := 0; total <= maxHeaderBytes; {
		line, size, err := readLine(in)
		if err != nil || len(line) == 0 {
			return err
		}
		total += size
	}
	return fmt.Errorf("trailers above %d bytes: %w", maxHeaderBytes, ErrMalformed)
}

// readRest reads a body that ends with the connection.
func (r *Response) readRest(in *bufio.Reader) error {
	for {
		if len(r.Body) == cap(r.Body) {
			r.Body = append(r.Body, make([]byte, 512)...)[:len(r.Body)]
		}
		n, err := in.Read(r.Body[len(r.Body):cap(r.Body)])
		r.Body = r.Body[:len(r.Body)+n]
		switch {
		case len(r.Body) > maxBodyBytes:
			return fmt.Errorf("body above %d bytes: %w", maxBodyBytes, ErrMalformed)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// readLine returns the next line without its end, and how many bytes it took.
// If a line does not fit the buffer it returns only the beginning: no field
// that matters here is that long. The bytes are valid until the next read.
func readLine(in *bufio.Reader) (line []byte, size int, err error) {
	line, err = in.ReadSlice('\n')
	size = len(line)
	if errors.Is(err, bufio.ErrBufferFull) {
		line = bytes.Clone(line) // the next read overwrites it
		for errors.Is(err, bufio.ErrBufferFull) && size <= maxHeaderBytes {
			var more []byte
			more, err = in.ReadSlice('\n')
			size += len(more)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, size, fmt.Errorf("line above %d bytes: %w", maxHeaderBytes, ErrMalformed)
		}
		return line, size, whole(err)
	}
	if err != nil {
		return nil, size, whole(err)
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, size, nil
}

// whole turns an EOF in the middle of an answer into io.ErrUnexpectedEOF.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// digits reads a decimal number of at most 18 digits.
func digits(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// trim removes the blanks around a value.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// equalFold compares with a lower-case text, ignoring case.
func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
