package revoke

import (
	"sync"
	"sync/atomic"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/identity/revoke/internal/revokedb"
)

// list holds the revocations that this instance knows. Safe for concurrent use. It
// has no size limit, because evicting an entry would let its tokens in. The life of
// a token bounds it: some 50 bytes for each login that was ended within a day.
type list struct {
	mu      sync.RWMutex
	logins  map[int64]int64 // login → when to forget it, in Unix seconds
	users   map[int64]cut
	version atomic.Uint64
}

// cut ends a user's tokens that were issued up to a given time.
type cut struct {
	until   int64 // in Unix microseconds
	expires int64 // when to forget it, in Unix seconds
}

func newList() *list { return &list{logins: map[int64]int64{}, users: map[int64]cut{}} }

// add puts revocations into force. Known ones, and older ones of a user, change
// nothing.
func (l *list) add(rows []revokedb.RevocationsSinceRow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := false
	for _, r := range rows {
		switch {
		case r.LoginID != nil:
			if _, known := l.logins[*r.LoginID]; known {
				continue
			}
			l.logins[*r.LoginID] = r.ExpiresAt.Unix()
		case r.UserID != nil:
			until := r.IssuedBefore.UnixMicro()
			if known, ok := l.users[*r.UserID]; ok && known.until >= until {
				continue
			}
			l.users[*r.UserID] = cut{until: until, expires: r.ExpiresAt.Unix()}
		default:
			continue // the row that has only the horizon
		}
		changed = true
	}
	if changed {
		l.version.Add(1)
	}
}

// maxAhead is how far in the future a token's time of issue may lie. Two instances'
// clocks differ by far less.
const maxAhead = 5 * time.Second

// covers reports whether a principal's token has ended.
func (l *list) covers(p auth.Principal, now func() time.Time) bool {
	l.mu.RLock()
	_, ended := l.logins[p.Login] // there is no login 0
	cut, some := l.users[p.UserID]
	l.mu.RUnlock()
	if ended || !some {
		return ended
	}
	// A clock that is far ahead must not mint a token that survives a revocation.
	return p.IssuedAt.UnixMicro() <= cut.until || p.IssuedAt.Sub(now()) > maxAhead
}

// forget drops expired revocations: the tokens that they ended have expired too.
func (l *list) forget(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seconds := now.Unix()
	for login, expires := range l.logins {
		if expires < seconds {
			delete(l.logins, login)
		}
	}
	for user, c := range l.users {
		if c.expires < seconds {
			delete(l.users, user)
		}
	}
}

// len is how many revocations are in force.
func (l *list) len() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.logins) + len(l.users)
}
