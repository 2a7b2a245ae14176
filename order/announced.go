package order

import (
	"encoding/binary"

	"github.com/coocood/freecache"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
)

// announcedSeconds is how long the cache may keep an older version: as long as
// the put of a change is attempted, see cacheAttempts.
const announcedSeconds = 3600

// announced remembers the newest version of each changed order that shoppers
// may have been told by a push. The cache can be behind it: a put fails while
// Redis is away, and the entry from before is readable again earlier than the
// put is repeated.
type announced struct{ versions *freecache.Cache }

func newAnnounced(cacheBytes int) announced { return announced{freecache.NewCache(cacheBytes / 2)} }

// Announced is called with changes before they are pushed, so that no poll
// answers with an older version. Safe for concurrent use.
func (s *Service) Announced(orders []orderevent.Order) {
	for i := range orders {
		if o := &orders[i]; o.Version > 1 && s.cache.announced.allows(o.No, o.Version) {
			var v [4]byte
			binary.LittleEndian.PutUint32(v[:], uint32(o.Version))              //nolint:gosec // versions rise from 1
			_ = s.cache.announced.versions.Set(o.No[:], v[:], announcedSeconds) // fails only for large entries
		}
	}
}

// allows reports whether a version is at least as new as what was announced.
func (a announced) allows(no ids.ID, version int32) bool {
	var buf [4]byte
	v, err := a.versions.GetWithBuf(no[:], buf[:])
	return err != nil || len(v) != len(buf) || uint32(version) >= binary.LittleEndian.Uint32(v) //nolint:gosec // as above
}
