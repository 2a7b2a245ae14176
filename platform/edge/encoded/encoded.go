// Package encoded serves files that are in memory, in the smallest encoding that a client
// takes.
package encoded

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/andybalholm/brotli"
)

// File is a file as it is sent, in every encoding that a client may take. Safe for
// concurrent use.
type File struct {
	name, tag string
	plain     []byte
	encoded   map[string]func() []byte
}

// How hard a file is compressed: those of a folder once, a document each time.
const (
	Smallest = 11
	Quickly  = 5
)

// New returns a file. Its content type follows from its name, unless an answer has one
// already.
func New(name, body string, quality int) *File {
	sum := sha256.Sum256([]byte(body))
	f := &File{name: name, tag: fmt.Sprintf("%x", sum[:8]), plain: []byte(body), encoded: map[string]func() []byte{}}
	// The best compression of all files takes half a second, so that each waits for the
	// first client that takes it.
	for _, encoding := range encodings {
		f.encoded[encoding] = sync.OnceValue(func() []byte { return compress(encoding, f.plain, quality) })
	}
	return f
}

// encodings are those that the server speaks, the smallest first.
var encodings = []string{"br", "gzip"}

// encoder is a writer of an encoding; it has a megabyte of tables, so that those of
// documents are used again.
type encoder interface {
	io.WriteCloser
	Reset(to io.Writer)
}

func newEncoder(encoding string, quality int) encoder {
	if encoding == "gzip" {
		w, _ := gzip.NewWriterLevel(nil, min(quality, gzip.BestCompression)) // fails for unknown levels only
		return w
	}
	return brotli.NewWriterLevel(nil, quality)
}

// quick are encoders of documents, by encoding.
var quick = map[string]*sync.Pool{
	"br":   {New: func() any { return newEncoder("br", Quickly) }},
	"gzip": {New: func() any { return newEncoder("gzip", Quickly) }},
}

// compress returns a file's form in an encoding.
func compress(encoding string, plain []byte, quality int) []byte {
	var small bytes.Buffer
	var w encoder
	if quality == Quickly {
		w, _ = quick[encoding].Get().(encoder)
		defer quick[encoding].Put(w)
	} else {
		w = newEncoder(encoding, quality)
	}
	w.Reset(&small)
	_, _ = w.Write(plain) // memory takes everything
	_ = w.Close()
	return small.Bytes()
}

// Serve answers with the file; keep is its Cache-Control. Embedded files have no date, so caches revalidate by the
// tag, which is another one for each encoding.
func (f *File) Serve(w http.ResponseWriter, r *http.Request, keep string, status int) {
	h := w.Header()
	h.Set("Cache-Control", keep)
	h.Set("Vary", strings.TrimPrefix(h.Get("Vary")+", Accept-Encoding", ", ")) // in one line: some caches read the first only
	body, tag := f.plain, f.tag
	if encoding := bestEncoding(r.Header.Get("Accept-Encoding")); encoding != "" {
		h.Set("Content-Encoding", encoding)
		body, tag = f.encoded[encoding](), tag+"-"+encoding
	}
	if status != http.StatusOK {
		h.Set("Content-Type", mime.TypeByExtension(path.Ext(f.name)))
		w.WriteHeader(status)
		_, _ = w.Write(body) // the client may be gone
		return
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
