package idempotency_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/idempotency"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

type answer struct {
	No int64 `json:"no"`
}

type request struct{ Units int }

// run is one of the two ways to run a request under a key.
type run func(ctx context.Context, key string, in request, fn func() (answer, error)) (answer, error)

func ways(db *pgxpool.Pool) map[string]run {
	return map[string]run{
		"once": func(ctx context.Context, key string, in request, fn func() (answer, error)) (out answer, err error) {
			err = pg.InTx(ctx, db, func(tx pgx.Tx) error {
				out, err = idempotency.Once(ctx, tx, key, "test", in, fn)
				return err
			})
			return out, err
		},
		"around": func(ctx context.Context, key string, in request, fn func() (answer, error)) (answer, error) {
			return idempotency.Around(ctx, db, slog.New(slog.DiscardHandler), key, "test", in, func(context.Context) (answer, error) { return fn() })
		},
	}
}

func as(t *testing.T, user int64) context.Context {
	t.Helper()
	return auth.Into(t.Context(), auth.Principal{UserID: user, Role: auth.Shopper})
}

// Both ways give the same guarantees.
func TestAKeyHasOneEffect(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	for name, carryOut := range ways(db) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			user := int64(len(name)) // keys are scoped to a user
			var made atomic.Int64
			create := func() (answer, error) { return answer{No: made.Add(1)}, nil }
			expect := func(what string, ctx context.Context, key string, in request, want int64, wantErr error) {
				t.Helper()
				before, header := made.Load(), http.Header{}
				got, err := carryOut(idempotency.Marking(ctx, header), key, in, create)
				if replayed := header.Get(idempotency.Replayed) == "true"; replayed != (err == nil && want <= before) {
					t.Errorf("%s is marked as replayed: %v", what, replayed)
				}
				if !errors.Is(err, wantErr) || err == nil && got.No != want {
					t.Errorf("%s: %+v, %v; want %d, %v", what, got, err, want, wantErr)
				}
			}
			expect("the first", as(t, user), "k", request{1}, 1, nil)
			expect("a repetition", as(t, user), "k", request{1}, 1, nil)
			expect("another body", as(t, user), "k", request{2}, 0, idempotency.ErrMismatch)
			expect("another key", as(t, user), "k2", request{1}, 2, nil)
			expect("another user", as(t, user+100), "k", request{2}, 3, nil)
			expect("no key", as(t, user), "", request{1}, 4, nil)
			expect("no key again", as(t, user), "", request{1}, 5, nil)
			if _, err := carryOut(as(t, user), "\xff", request{1}, create); fault.From(err).Kind != fault.Invalid {
				t.Errorf("a key that is not text: %v", err)
			}

			// A failed request may be repeated, even with another body: it had no
			// effect.
			broken := errors.New("broken on purpose")
			_, err := carryOut(as(t, user), "k3", request{1}, func() (answer, error) { return answer{}, broken })
			require.ErrorIs(t, err, broken)
			expect("after a failure", as(t, user), "k3", request{2}, 6, nil)

			// While the first runs, the second is refused and has no effect.
			under, finish := make(chan struct{}), make(chan struct{})
			var first sync.WaitGroup
			first.Go(func() {
				got, err := carryOut(as(t, user), "k4", request{1}, func() (answer, error) {
					close(under)
					<-finish
					return create()
				})
				if err != nil || got.No != 7 {
					t.Errorf("the first of two: %+v, %v", got, err)
				}
			})
			<-under
			expect("beside the first", as(t, user), "k4", request{1}, 0, idempotency.ErrInFlight)
			close(finish)
			first.Wait()
			expect("after the first", as(t, user), "k4", request{1}, 7, nil)

			// A day later the key is free.
			exec(t, db, `UPDATE platform.idempotency SET created_at = now() - interval '25 hours' WHERE actor = $1 AND key = 'k'`, user)
			expect("a day later", as(t, user), "k", request{9}, 8, nil)
			expect("a repetition of that", as(t, user), "k", request{9}, 8, nil)
		})
	}
}

func exec(t *testing.T, db *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if tag, err := db.Exec(t.Context(), sql, args...); err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%s: %v rows, %v", sql, tag, err)
	}
}

// FuzzIdempotencyKey: whatever a client's key is, a repetition has the first answer and
// no second effect, and a key that is refused is the client's fault.
func FuzzIdempotencyKey(f *testing.F) {
	for _, key := range []string{"k1", "\xff\xfe", "钥匙", "'; DROP TABLE x; --", "%00", "\t", "a\x00b"} {
		f.Add(key)
	}
	both, user := ways(pgtest.DB(f)), int64(0)
	f.Fuzz(func(t *testing.T, key string) {
		for name, carryOut := range both {
			made := int64(0)
			create := func() (answer, error) { made++; return answer{No: made}, nil }
			user++ // keys are scoped to a user
			first, err := carryOut(as(t, user), key, request{1}, create)
			again, _ := carryOut(as(t, user), key, request{1}, create)
			if err == nil && (first != again || made != 1) != (key == "") || err != nil && (fault.From(err).Kind != fault.Invalid || made > 0) {
				t.Errorf("%s: under the key %q %+v, then %+v, and %d effects: %v", name, key, first, again, made, err)
			}
		}
	})
}

// The claim of a dead process blocks the key for a minute; then only the same
// request may be repeated.
func TestAClaimOutlivesItsProcessForAMinute(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	around := ways(db)["around"]
	create := func() (answer, error) { return answer{No: 1}, nil }
	// A process that dies neither stores an answer nor releases the claim.
	func() {
		defer func() { _ = recover() }()
		_, _ = around(as(t, 1), "k", request{1}, func() (answer, error) { panic("died") })
	}()
	_, err := around(as(t, 1), "k", request{1}, create) // beside a claim
	require.ErrorIs(t, err, idempotency.ErrInFlight)
	exec(t, db, `UPDATE platform.idempotency SET claimed_until = claimed_until - interval '1 minute'`)
	_, err = around(as(t, 1), "k", request{2}, create) // another request under an expired claim
	require.ErrorIs(t, err, idempotency.ErrMismatch)
	if got, err := around(as(t, 1), "k", request{1}, create); err != nil || got.No != 1 {
		t.Errorf("the same request under an expired claim: %+v, %v", got, err)
	}
}

// A client that leaves does not leave its claim behind.
func TestAClientThatLeavesKeepsNoClaim(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	around := ways(db)["around"]
	ctx, leave := context.WithCancel(as(t, 1))
	_, err := around(ctx, "k", request{1}, func() (answer, error) { leave(); return answer{}, ctx.Err() })
	require.ErrorIs(t, err, context.Canceled)
	if got, err := around(as(t, 1), "k", request{1}, func() (answer, error) { return answer{No: 5}, nil }); err != nil || got.No != 5 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestForgetRemovesWhatIsOld(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	for _, key := range []string{"old", strings.Repeat("x", 255)} {
		_, err := ways(db)["once"](as(t, 1), key, request{1}, func() (answer, error) { return answer{No: 1}, nil })
		require.NoError(t, err)
	}
	exec(t, db, `UPDATE platform.idempotency SET created_at = now() - interval '24 hours' WHERE key = 'old'`)
	for _, want := range []int64{1, 0} {
		if n, err := idempotency.Forget(t.Context(), db); n != want || err != nil {
			t.Errorf("%d deleted, %v; want %d", n, err, want)
		}
	}
}
