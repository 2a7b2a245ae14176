package browse

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/coocood/freecache"
	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/singleflight"

	"stampede/seckill/internal/wire"
)

const (
	// An answer is kept for browseLeast plus up to browseJitter. A second hides a
	// thundering herd from Redis and nobody notices its age; the jitter keeps
	// answers that were made together from running out together.
	browseLeast  = time.Second
	browseJitter = time.Second
	// browseExpireSeconds lets freecache drop what is too old in any case. It
	// counts whole seconds and may cut one short by almost a second.
	browseExpireSeconds = 3
	// browseTimeout bounds one look into Redis, so that shoppers who wait for the
	// same answer are told soon that there is none.
	browseTimeout = 2 * time.Second
)

// browseCache keeps finished answers, and that there is nothing to answer with,
// for a second or two. Whoever misses while another is looking waits for that
// one's answer. Safe for concurrent use.
type browseCache struct {
	kept    *freecache.Cache
	flights singleflight.Group
	now     func() time.Time
}

// browsed is an answer's JSON object without server_time; empty says that
// there is nothing.
type browsed struct {
	raw  []byte
	etag string
}

// get returns the answer for key, made by build when none is kept. build says
// until when its answer holds at most (zero: no such bound), and returns nil
// for nothing. An error is not kept.
func (c *browseCache) get(ctx context.Context, key string, build func(context.Context) (doc any, until time.Time, err error)) (browsed, error) {
	if r, ok := c.lookup(key); ok {
		return r, nil
	}
	flight := c.flights.DoChan(key, func() (any, error) {
		// Whoever missed just before an earlier flight came home finds what it brought.
		if r, ok := c.lookup(key); ok {
			return r, nil
		}
		// Not the first caller's context: the others wait for this answer too.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), browseTimeout)
		defer cancel()
		doc, until, err := build(ctx)
		if err != nil {
			return browsed{}, err
		}
		var raw []byte
		if doc != nil {
			if raw, err = json.Marshal(doc); err != nil {
				return browsed{}, fmt.Errorf("seckill: encode browse answer: %w", err)
			}
		}
		c.keep(key, raw, until)
		return browsedOf(raw), nil
	})
	select {
	case res := <-flight:
		r, _ := res.Val.(browsed)
		return r, res.Err
	case <-ctx.Done():
		return browsed{}, ctx.Err()
	}
}

// stampBytes is the length of the expiry in front of a kept answer.
const stampBytes = 8

func (c *browseCache) lookup(key string) (browsed, bool) {
	value, err := c.kept.Get([]byte(key))
	if err != nil || int64(binary.BigEndian.Uint64(value)) <= c.now().UnixMilli() {
		return browsed{}, false
	}
	return browsedOf(value[stampBytes:]), true
}

func (c *browseCache) keep(key string, raw []byte, until time.Time) {
	expires := c.now().Add(browseLeast + rand.N(browseJitter)) //nolint:gosec // jitter is no secret
	if !until.IsZero() && until.Before(expires) {
		expires = until
	}
	value := binary.BigEndian.AppendUint64(make([]byte, 0, stampBytes+len(raw)), uint64(expires.UnixMilli()))
	// An answer too large for the cache is made again for each group of callers; the setting's documentation says so.
	_ = c.kept.Set([]byte(key), append(value, raw...), browseExpireSeconds)
}

// browsedOf names the answer by its content, so that a client that has it already
// need not get it again.
func browsedOf(raw []byte) browsed {
	if len(raw) == 0 {
		return browsed{}
	}
	return browsed{raw: raw, etag: `"` + strconv.FormatUint(xxhash.Sum64(raw), 16) + `"`}
}

// document is a browsed answer to which server_time is added as it leaves. T
// is what it shows, for the OpenAPI document.
type document[T any] struct {
	raw []byte
	now time.Time
}

// MarshalJSON puts server_time at the end of the object.
func (d document[T]) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, len(d.raw)+len(`,"server_time":""}`)+len(wire.TimeLayout))
	out = append(out, d.raw[:len(d.raw)-1]...)
	out = append(out, `,"server_time":"`...)
	out = d.now.UTC().AppendFormat(out, wire.TimeLayout)
	return append(out, `"}`...), nil
}

// Schema is T's with server_time. It is a schema of its own and not allOf, since
// T's allows no members but its own.
func (document[T]) Schema(r huma.Registry) *huma.Schema {
	own := *r.SchemaFromRef(r.Schema(reflect.TypeFor[T](), true, "").Ref)
	own.Properties = maps.Clone(own.Properties)
	own.Properties["server_time"] = wire.Time{}.Schema(r)
	own.Required = append(slices.Clone(own.Required), "server_time")
	return &own
}
