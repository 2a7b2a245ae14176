package ratelimit

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"time"
)

// subject is a rule's subject as a hash: a client cannot choose one that collides
// with another's, and the subject cannot be read from it.
type subject [15]byte // a multiple of 3, so that base64 needs no padding

func subjectOf(a Ask) subject {
	sum := sha256.Sum256([]byte(a.Rule.Name + "\x00" + a.Key))
	return subject(sum[:15])
}

// keyPrefix begins the subjects' keys. The hash tag puts all of them into one
// slot.
const keyPrefix = "limit:{limits}:"

// RedisKeys are the prefixes of the package's keys.
var RedisKeys = []string{keyPrefix}

// lent is the place of what an instance gave the subject without asking Redis, in the same row.
func (s subject) lent() subject {
	s[len(s)-1] ^= 1
	return s
}

// key is the subject's key in Redis.
func (s subject) key() string { return keyPrefix + base64.RawURLEncoding.EncodeToString(s[:]) }

// The table's size: 262,144 subjects of 24 bytes are 6 MiB. A subject whose row is
// full replaces the subject whose quota is full again soonest; Redis still has that
// one, so only the fast path is lost.
const (
	rows     = 1 << 15
	rowPlace = 8
)

type place struct {
	subject subject
	tat     time.Duration // since the table's creation; a past time is an empty place
}

// table keeps the newest TATs that this process knows. Safe for concurrent use;
// locks are taken one at a time and only for a few comparisons.
type table struct {
	rows [rows]struct {
		mu     sync.Mutex
		places [rowPlace]place
	}
}

func (t *table) row(s subject) (row *[rowPlace]place, mu *sync.Mutex) {
	r := &t.rows[binary.LittleEndian.Uint64(s[:8])%rows]
	return &r.places, &r.mu
}

// find returns a subject's place, or the one that it may replace. The caller has
// locked the row.
func find(row *[rowPlace]place, s subject) *place {
	oldest := &row[0]
	for i := range row {
		if row[i].subject == s {
			return &row[i]
		}
		if row[i].tat < oldest.tat {
			oldest = &row[i]
		}
	}
	return oldest
}

// take advances a subject's TAT by one interval unless it would then lie too far
// ahead. It returns how far ahead it lies.
func (t *table) take(s subject, r Rule, now time.Duration) (ahead time.Duration, ok bool) {
	row, mu := t.row(s)
	mu.Lock()
	defer mu.Unlock()
	p := find(row, s)
	tat := now
	if p.subject == s {
		tat = max(p.tat, now)
	}
	if tat+r.interval()-now > r.full() {
		return tat - now, false
	}
	*p = place{s, tat + r.interval()}
	return p.tat - now, true
}

// look is how far ahead a subject's TAT lies.
func (t *table) look(s subject, now time.Duration) time.Duration {
	row, mu := t.row(s)
	mu.Lock()
	defer mu.Unlock()
	if p := find(row, s); p.subject == s {
		return max(p.tat-now, 0)
	}
	return 0
}

// back undoes a take.
func (t *table) back(s subject, r Rule) {
	row, mu := t.row(s)
	mu.Lock()
	defer mu.Unlock()
	if p := find(row, s); p.subject == s {
		p.tat -= r.interval()
	}
}

// learn stores Redis's answer. It never moves a TAT back: other takes of this
// process may be on their way to Redis.
func (t *table) learn(s subject, ahead, now time.Duration) {
	if ahead <= 0 {
		return
	}
	row, mu := t.row(s)
	mu.Lock()
	defer mu.Unlock()
	p := find(row, s)
	switch {
	case p.subject != s:
		*p = place{s, now + ahead}
	case p.tat < now+ahead:
		p.tat = now + ahead
	}
}
