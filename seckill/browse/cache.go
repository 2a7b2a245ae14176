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
	// An answer is cached for browseLeast plus up to browseJitter. A second hides
	// a thundering herd from Redis and shoppers do not notice its age; the jitter
	// keeps answers that were built together from expiring together.
	browseLeast  = time.Second
	browseJitter = time.Second
	// browseExpireSeconds makes freecache drop expired answers in any case. It
	// counts whole seconds and may cut one short by almost a second.
	browseExpireSeconds = 3
	// browseTimeout bounds one read from Redis, so that callers waiting for the
	// same answer fail soon if there is none.
	browseTimeout = 2 * time.Second
)

// browseCache caches finished answers, and the absence of an answer, for a
// second or two. Concurrent misses of the same key are coalesced. Safe for
// concurrent use.
type browseCache struct {
	kept    *freecache.Cache
	flights singleflight.Group
	now     func() time.Time
}

// browsed is an answer's JSON object without server_time; empty means that
// there is no answer.
type browsed struct {
	raw  []byte
	etag string
}

// get returns the answer for key, building it with build on a miss. build
// returns the time until which its answer is valid at most (zero: no limit),
// and nil if there is no answer. Errors are not cached.
func (c *browseCache) get(ctx context.Context, key string, build func(context.Context) (doc any, until time.Time, err error)) (browsed, error) {
	if r, ok := c.lookup(key); ok {
		return r, nil
	}
	return together(ctx, &c.flights, key, browseTimeout, func(ctx context.Context) (r browsed, err error) {
		// A caller that missed just before an earlier flight finished finds its result.
		if r, ok := c.lookup(key); ok {
			return r, nil
		}
		doc, until, err := build(ctx)
		if err != nil {
			return r, err
		}
		var raw []byte
		if doc != nil {
			if raw, err = json.Marshal(doc); err != nil {
				return r, fmt.Errorf("seckill: encode browse answer: %w", err)
			}
		}
		c.keep(key, raw, until)
		return browsedOf(raw), nil
	})
}

// together runs build once for all callers with a key that arrive while it runs. It
// continues when the first of them leaves, because the others still wait.
func together[T any](
	ctx context.Context, flights *singleflight.Group, key string, within time.Duration, build func(context.Context) (T, error),
) (none T, err error) {
	flight := flights.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
		defer cancel()
		return build(ctx)
	})
	select {
	case r := <-flight:
		v, _ := r.Val.(T)
		return v, r.Err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// stampBytes is the length of the expiry stored in front of an answer.
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
	// An answer too large for the cache is built again for each group of callers; the setting's documentation
	// says so.
	_ = c.kept.Set([]byte(key), append(value, raw...), browseExpireSeconds)
}

// browsedOf derives an answer's ETag from its content, so that a client that
// already has it need not download it again.
func browsedOf(raw []byte) browsed {
	if len(raw) == 0 {
		return browsed{}
	}
	return browsed{raw: raw, etag: `"` + strconv.FormatUint(xxhash.Sum64(raw), 16) + `"`}
}

// document is a browse answer; server_time is added when it is sent. T is the
// answer's type, for the OpenAPI document.
type document[T any] struct {
	raw []byte
	now time.Time
}

// MarshalJSON appends server_time to the object.
func (d document[T]) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, len(d.raw)+len(`,"server_time":""}`)+len(wire.TimeLayout))
	out = append(out, d.raw[:len(d.raw)-1]...)
	out = append(out, `,"server_time":"`...)
	out = d.now.UTC().AppendFormat(out, wire.TimeLayout)
	return append(out, `"}`...), nil
}

// Schema is T's schema plus server_time. It is a separate schema and not an
// allOf, because T's schema allows no additional members.
func (document[T]) Schema(r huma.Registry) *huma.Schema {
	own := *r.SchemaFromRef(r.Schema(reflect.TypeFor[T](), true, "").Ref)
	own.Properties = maps.Clone(own.Properties)
	own.Properties["server_time"] = wire.Time{}.Schema(r)
	own.Required = append(slices.Clone(own.Required), "server_time")
	return &own
}
