// Package keys lets a shop's own systems call the API without a login: an admin makes a
// key, which has scopes, may expire, is shown once and can be revoked.
//
// A key is checked from memory on every instance (package snapshot): revoked, it is
// refused within a second everywhere. It acts as a user without any way to log in, so
// that the audit log, names and idempotency keys are as for people: no key meets another
// one's idempotency keys. Only operations that name a scope accept keys, see httpx.Op.
//
// Service is safe for concurrent use.
package keys

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math/big"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/edge/auth"
	"stampede/platform/identity/keys/internal/keysdb"
	"stampede/platform/store/bus"
	"stampede/platform/store/pg"
	"stampede/platform/store/pulse"
	"stampede/platform/store/snapshot"
)

const (
	// secretBytes are 43 characters of base 62, as in GitHub's tokens, and sumChars a
	// checksum: who mistypes a key, or scans for leaked ones, needs no look-up.
	secretBytes = 32
	secretChars = 43
	sumChars    = 6
	// hintChars of its end tell an operator which key it is.
	hintChars = 4
	// useEvery is how exactly the last use is known.
	useEvery = time.Minute
)

// newKey returns a new key.
func newKey() string {
	raw := make([]byte, secretBytes)
	_, _ = rand.Read(raw) // never fails
	secret := base62(new(big.Int).SetBytes(raw), secretChars)
	return auth.KeyPrefix + secret + sumOf(secret)
}

// base62 is a number in a fixed number of digits, 0-9a-zA-Z.
func base62(n *big.Int, digits int) string {
	text := n.Text(62)
	return strings.Repeat("0", digits-len(text)) + text
}

func sumOf(secret string) string {
	return base62(new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(secret)))), sumChars)
}

// wellFormed reports whether a text can be a key.
func wellFormed(key string) bool {
	secret, ok := strings.CutPrefix(key, auth.KeyPrefix)
	return ok && len(secret) == secretChars+sumChars && sumOf(secret[:secretChars]) == secret[secretChars:]
}

// Deps are the package's dependencies.
type Deps struct {
	DB      *pgxpool.Pool
	Pulse   *pulse.Pulse // see snapshot.Source
	Bus     *bus.Bus
	Clock   clock.Clock
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Service knows the keys.
type Service struct {
	deps    Deps
	current *snapshot.Replica[index]

	mu   sync.Mutex
	used map[int64]time.Time // by key, since it was last written
}

// index are the keys that are not revoked, by their hash.
type index map[[sha256.Size]byte]known

type known struct {
	id        int64
	principal auth.Principal
}

// New returns a Service without keys; Refresh or the worker reads them.
func New(deps Deps) *Service {
	s := &Service{deps: deps, used: map[int64]time.Time{}}
	s.current = snapshot.New(snapshot.Source[index]{
		Name: "api-keys", Table: "account.api_keys_revision", Read: read, DB: deps.DB, Pulse: deps.Pulse, Bus: deps.Bus, Log: deps.Log,
		Failures: promauto.With(deps.Metrics).NewCounter(prometheus.CounterOpts{
			Name: "stampede_api_keys_refresh_failures_total", Help: "Failed reads of the API keys from Postgres.",
		}),
	}, &index{})
	return s
}

func read(ctx context.Context, tx pgx.Tx) (*index, error) {
	rows, err := keysdb.New(tx).KeysInForce(ctx)
	if err != nil {
		return nil, fmt.Errorf("read API keys: %w", err)
	}
	all := make(index, len(rows))
	for _, r := range rows {
		all[[sha256.Size]byte(r.Hash)] = known{r.ID, auth.Principal{
			UserID: r.UserID, Scopes: strings.Join(r.Scopes, " "), Namespace: r.Namespace, ExpiresAt: pg.ValueOr(r.ExpiresAt, time.Time{}),
		}}
	}
	return &all, nil
}

// Admit returns the principal of a key that is in force, whose role depends on the
// operation (auth.Principal.For), else auth.ErrBadKey. It reads
// memory only. The map is looked up by a hash, whose timing tells nothing about the key.
func (s *Service) Admit(key string) (auth.Principal, error) {
	if !wellFormed(key) {
		return auth.Principal{}, auth.ErrBadKey
	}
	k, ok := (*s.current.Now())[sha256.Sum256([]byte(key))]
	now := s.deps.Clock.Now()
	if !ok || !k.principal.ExpiresAt.IsZero() && !now.Before(k.principal.ExpiresAt) {
		return auth.Principal{}, auth.ErrBadKey
	}
	s.mu.Lock()
	s.used[k.id] = now
	s.mu.Unlock()
	return k.principal, nil
}

// MakerOf returns who made the key that acts as a user; 0 for a user who is a person.
func (s *Service) MakerOf(ctx context.Context, user int64) (int64, error) {
	maker, err := keysdb.New(s.deps.DB).MakerOf(ctx, user)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("keys: read a key's maker: %w", err)
	}
	return maker, nil
}

// Refresh reads the keys if they have changed. Call it before serving.
func (s *Service) Refresh(ctx context.Context) error { return s.current.Refresh(ctx) }

// Workers keep the keys fresh and write their last uses.
func (s *Service) Workers() []app.Worker {
	uses := app.Loop{Every: useEvery, Do: s.noteUses, Log: s.deps.Log, Failed: "last uses of API keys are not written, retrying in a minute"}
	return []app.Worker{{Name: "api-keys", Run: s.current.Run}, {Name: "api-key-uses", Run: uses.Run}}
}

// noteUses writes when keys were last used.
func (s *Service) noteUses(ctx context.Context) error {
	s.mu.Lock()
	used := s.used
	s.used = map[int64]time.Time{}
	s.mu.Unlock()
	var p keysdb.NoteUseParams
	for id, at := range used {
		p.Ids, p.Ats = append(p.Ids, id), append(p.Ats, at)
	}
	if len(used) == 0 {
		return nil
	}
	return keysdb.New(s.deps.DB).NoteUse(ctx, p)
}
