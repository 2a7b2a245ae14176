package order

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/coocood/freecache"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

// announcedSeconds is how long the cache may keep an older version: as long as
// the put of a change is attempted, see cacheAttempts.
const announcedSeconds = 3600

// announcedRest is how long pushes go on without the cache after it has failed: a put
// that Redis does not answer takes a second (cacheWrite).
const announcedRest = 10 * time.Second

// announced remembers the newest version of each changed order that shoppers
// may have been told by a push. The cache can be behind it: a put fails while
// Redis is away, and the entry from before is readable again earlier than the
// put is repeated.
type announced struct {
	versions *freecache.Cache
	putAfter atomic.Int64 // Unix time in ns; until then pushes do not wait for the cache
}

// BeforePush is called with changes before some of them are pushed to sockets of this
// instance. Afterwards no poll on this instance answers with an older version, nor does one
// elsewhere with an older version than a pushed one, unless Redis takes no writes: the
// other instances may not have seen the event yet, and read the cache. Safe for concurrent
// use.
func (s *Service) BeforePush(ctx context.Context, changed, pushed []orderevent.Order) {
	for i := range changed {
		if o := &changed[i]; o.Version > 1 && s.cache.announced.allows(o.No, o.Version) {
			var v [4]byte
			binary.LittleEndian.PutUint32(v[:], uint32(o.Version))              //nolint:gosec // versions rise from 1
			_ = s.cache.announced.versions.Set(o.No[:], v[:], announcedSeconds) // fails only for large entries
		}
	}
	if len(pushed) == 0 || time.Now().UnixNano() < s.cache.announced.putAfter.Load() {
		return
	}
	if err := s.cache.put(ctx, pushed); err != nil {
		// The subscription of the cache repeats the put; pushes must not wait for it again.
		s.cache.announced.putAfter.Store(time.Now().Add(announcedRest).UnixNano())
		s.deps.Log.WarnContext(ctx, "orders are pushed before the cache has them: polls on other instances may be behind", "orders", len(pushed), "error", err)
	}
}

// allows reports whether a version is at least as new as what was announced.
func (a *announced) allows(no ids.ID, version int32) bool {
	var buf [4]byte
	v, err := a.versions.GetWithBuf(no[:], buf[:])
	return err != nil || len(v) != len(buf) || uint32(version) >= binary.LittleEndian.Uint32(v) //nolint:gosec // as above
}
