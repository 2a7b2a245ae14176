package rush

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"sync"

	"stampede/platform/edge/auth"
)

// pathPurpose separates the rush paths' key from every other key derived from
// the same signing key.
const pathPurpose = "rush-path"

// pathKeys signs rush paths with its first key and accepts paths of any of its
// keys. While a signing key is being replaced the old one is listed second, so
// that no unexpired path is refused. Safe for concurrent use.
type pathKeys struct {
	keys []*pathKey
}

// pathKey is one key with the scratch space for using it. The id is derived
// from the key itself, so that all instances agree on it without configuration;
// two keys may share an id, in which case both are tried.
type pathKey struct {
	id      byte
	scratch sync.Pool // *pathScratch
}

// pathScratch is what one check needs. It is pooled because a fresh HMAC costs
// two SHA-256 blocks and several allocations, more than the check itself.
type pathScratch struct {
	mac hash.Hash
	raw [pathBytes]byte
	sum [sha256.Size]byte
}

// newPathKeys derives the path keys from signing keys: the current one first,
// then those that are being retired.
func newPathKeys(signing ...[]byte) (*pathKeys, error) {
	if len(signing) == 0 {
		return nil, errors.New("seckill: rush paths need a signing key")
	}
	ring := &pathKeys{}
	for i, s := range signing {
		if len(s) == 0 {
			return nil, fmt.Errorf("seckill: signing key %d is empty", i+1)
		}
		derived := auth.Derive(s, pathPurpose)
		fingerprint := sha256.Sum256(derived)
		k := &pathKey{id: fingerprint[0]}
		k.scratch.New = func() any { return &pathScratch{mac: hmac.New(sha256.New, derived)} }
		ring.keys = append(ring.keys, k)
	}
	return ring, nil
}

// sign returns the path for t. It refuses a token that the payload cannot
// represent.
func (ring *pathKeys) sign(t token) (string, error) {
	if !t.sane() {
		return "", fmt.Errorf("seckill: token for user %d, item %d, quantity %d does not fit a path", t.user, t.item, t.quantity)
	}
	k := ring.keys[0]
	s := k.scratch.Get().(*pathScratch) //nolint:errcheck // the pool holds nothing else
	defer k.scratch.Put(s)
	t.put(&s.raw, k.id)
	copy(s.raw[pathMACAt:], s.seal())
	var text [pathTextBytes]byte
	pathEncoding.Encode(text[:], s.raw[:])
	return string(text[:]), nil
}

// verify decodes a path into t, or returns errBadPath and leaves t unchanged.
// It allocates nothing, because it runs for every request of a rush.
func (ring *pathKeys) verify(path string, t *token) error {
	if len(path) != pathTextBytes {
		return errBadPath
	}
	var text [pathTextBytes]byte
	copy(text[:], path)
	var head [3]byte
	if _, err := pathEncoding.Decode(head[:], text[:4]); err != nil || (head[0] != pathVersion && head[0] != pathVersionShort) {
		return errBadPath
	}
	for _, k := range ring.keys {
		if k.id == head[pathKeyAt] && k.opens(&text, t) {
			return nil
		}
	}
	return errBadPath
}

// opens reports whether the path was signed with k, and decodes it if so.
func (k *pathKey) opens(text *[pathTextBytes]byte, t *token) bool {
	s := k.scratch.Get().(*pathScratch) //nolint:errcheck // the pool holds nothing else
	defer k.scratch.Put(s)
	if n, err := pathEncoding.Decode(s.raw[:], text[:]); err != nil || n != pathBytes {
		return false
	}
	if !hmac.Equal(s.seal(), s.raw[pathMACAt:]) {
		return false
	}
	t.take(&s.raw)
	return true
}

// seal is the truncated MAC of the payload in s.raw, valid until s is used
// again.
func (s *pathScratch) seal() []byte {
	s.mac.Reset()
	_, _ = s.mac.Write(s.raw[:pathMACAt]) // a hash never fails
	return s.mac.Sum(s.sum[:0])[:pathMACBytes]
}
