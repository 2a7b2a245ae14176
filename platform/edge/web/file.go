package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/andybalholm/brotli"
)

// file is a file as it is sent, in every encoding that a client may take.
type file struct {
	name, tag string
	plain     []byte
	encoded   map[string]func() []byte
}

func newFile(name, body string) *file {
	sum := sha256.Sum256([]byte(body))
	f := &file{name: name, tag: fmt.Sprintf("%x", sum[:8]), plain: []byte(body), encoded: map[string]func() []byte{}}
	// The best compression of all files takes half a second, so that each waits for the
	// first client that takes it.
	for _, encoding := range encodings {
		f.encoded[encoding] = sync.OnceValue(func() []byte { return compress(encoding, f.plain) })
	}
	return f
}

// encodings are those that the server speaks, the smallest first.
var encodings = []string{"br", "gzip"}

// compress returns the smallest form of a file.
func compress(encoding string, plain []byte) []byte {
	var small bytes.Buffer
	var w io.WriteCloser = brotli.NewWriterLevel(&small, brotli.BestCompression)
	if encoding == "gzip" {
		w, _ = gzip.NewWriterLevel(&small, gzip.BestCompression) // fails for unknown levels only
	}
	_, _ = w.Write(plain) // memory takes everything
	_ = w.Close()
	return small.Bytes()
}

// serve answers with the file. Embedded files have no date, so caches revalidate by the
// tag, which is another one for each encoding.
func (f *file) serve(w http.ResponseWriter, r *http.Request, keep string) {
	h := w.Header()
	h.Set("Cache-Control", keep)
	h.Add("Vary", "Accept-Encoding")
	body, tag := f.plain, f.tag
	if encoding := bestEncoding(r.Header.Get("Accept-Encoding")); encoding != "" {
		h.Set("Content-Encoding", encoding)
		body, tag = f.encoded[encoding](), tag+"-"+encoding
	}
	h.Set("ETag", strconv.Quote(tag))
	http.ServeContent(w, r, f.name, time.Time{}, bytes.NewReader(body))
}

// bestEncoding is the one that a client prefers by its weights (RFC 9110, 12.5.3), and
// the smallest of those that it likes equally; "" is the plain file.
func bestEncoding(accepted string) string {
	weights := map[string]float64{}
	for part := range strings.SplitSeq(strings.ToLower(accepted), ",") {
		name, parameter, weighted := strings.Cut(strings.ReplaceAll(part, " ", ""), ";")
		weight := 1.0
		if weighted {
			weight, _ = strconv.ParseFloat(strings.TrimPrefix(parameter, "q="), 64) // nonsense is no wish for it
		}
		weights[name] = weight
	}
	best, most := "", weights["identity"]
	for _, encoding := range slices.Backward(encodings) {
		weight, named := weights[encoding]
		if !named {
			weight = weights["*"]
		}
		if weight > 0 && weight >= most {
			best, most = encoding, weight
		}
	}
	return best
}
