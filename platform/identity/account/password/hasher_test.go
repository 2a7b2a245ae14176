package password_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"stampede/platform/identity/account/password"
	"stampede/platform/workshop/require"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var cheap = password.Params{MemoryKiB: 64, Passes: 1, Threads: 1}

func hasher(t testing.TB, p password.Params, parallel int, onHash func()) *password.Hasher {
	t.Helper()
	if onHash == nil {
		onHash = func() {}
	}
	return password.New(p, parallel, onHash)
}

// The argon2 command line tool writes the same string for the same password, salt
// and costs; another program's passwords can be imported.
func TestFormatIsGolden(t *testing.T) {
	t.Parallel()
	// echo -n password | argon2 somesalt -id -t 2 -m 16 -p 1
	const golden = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	h := hasher(t, cheap, 1, nil)
	fits, stale, err := h.Check(t.Context(), golden, "password")
	if !fits || !stale || err != nil {
		t.Errorf("the tool's string: fits %v, stale %v, %v", fits, stale, err)
	}
	if fits, _, _ := h.Check(t.Context(), golden, "Password"); fits {
		t.Error("another password fits")
	}
}

func TestHashAndCheck(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	h := hasher(t, cheap, 2, func() { n.Add(1) })
	phc, err := h.Hash(t.Context(), "correct horse")
	if err != nil || !strings.HasPrefix(phc, "$argon2id$v=19$m=64,t=1,p=1$") {
		t.Fatalf("%s, %v", phc, err)
	}
	if again, _ := h.Hash(t.Context(), "correct horse"); again == phc {
		t.Error("two hashes share a salt")
	}
	dearer := hasher(t, password.Params{MemoryKiB: 64, Passes: 2, Threads: 1}, 2, nil)
	for _, c := range []struct {
		name, phc, password string
		h                   *password.Hasher
		fits, stale         bool
	}{
		{"the same", phc, "correct horse", h, true, false},
		{"another", phc, "correct hors", h, false, false},
		{"nothing stored", "", "correct horse", h, false, false},
		{"today's costs are higher", phc, "correct horse", dearer, true, true},
	} {
		before := n.Load()
		fits, stale, err := c.h.Check(t.Context(), c.phc, c.password)
		if fits != c.fits || stale != c.stale || err != nil {
			t.Errorf("%s: %v, %v, %v", c.name, fits, stale, err)
		}
		if c.h == h && n.Load() != before+1 {
			t.Errorf("%s: %d hashes", c.name, n.Load()-before)
		}
	}
}

// A text that is not a PHC string of this package is refused without hashing, in
// particular one whose cost exceeds the memory.
func TestForeignStringsAreRefused(t *testing.T) {
	t.Parallel()
	h := hasher(t, cheap, 1, func() { t.Error("hashed") })
	salt, hash := base64.RawStdEncoding.EncodeToString(make([]byte, 16)), base64.RawStdEncoding.EncodeToString(make([]byte, 32))
	for _, phc := range []string{
		"plain", "$2a$10$N9qo8uLOickgx2ZMRZoMye", "$argon2i$v=19$m=64,t=1,p=1$" + salt + "$" + hash,
		"$argon2id$v=16$m=64,t=1,p=1$" + salt + "$" + hash, "$argon2id$m=64,t=1,p=1$" + salt + "$" + hash,
		"$argon2id$v=19$m=4294967295,t=1,p=1$" + salt + "$" + hash, "$argon2id$v=19$m=64,t=4294967295,p=1$" + salt + "$" + hash,
		"$argon2id$v=19$m=7,t=1,p=1$" + salt + "$" + hash, "$argon2id$v=19$m=1048577,t=1,p=1$" + salt + "$" + hash, "$argon2id$v=19$m=64,t=1,p=0$" + salt + "$" + hash,
		"$argon2id$v=19$m=64,t=1,p=256$" + salt + "$" + hash, "$argon2id$v=19$m=64,t=0,p=1$" + salt + "$" + hash,
		"$argon2id$v=19$m=064,t=1,p=1$" + salt + "$" + hash, "$argon2id$v=19$m=+64,t=1,p=1$" + salt + "$" + hash,
		"$argon2id$v=19$t=1,m=64,p=1$" + salt + "$" + hash, "$argon2id$v=19$m=64,t=1,p=1$" + salt + "$",
		"$argon2id$v=19$m=64,t=1,p=1$$" + hash, "$argon2id$v=19$m=64,t=1,p=1$" + salt + "$" + hash + "$",
		"$argon2id$v=19$m=64,t=1,p=1$" + salt[:4] + "\n" + salt[4:] + "$" + hash,
	} {
		if _, _, err := h.Check(t.Context(), phc, "password"); !errors.Is(err, password.ErrFormat) {
			t.Errorf("%q: %v", phc, err)
		}
	}
}

// No more hashes run in parallel than there are places, a few wait, and the rest are
// refused: a crowd at the login must not take all memory.
func TestHashesAreBounded(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var running, most atomic.Int64
	began := make(chan struct{}, 1000)
	h := hasher(t, cheap, 2, func() {
		for n := running.Add(1); ; {
			if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		began <- struct{}{}
		<-release
		running.Add(-1)
	})
	var wg sync.WaitGroup
	var done, busy atomic.Int64
	for range 1000 {
		wg.Go(func() {
			switch _, err := h.Hash(t.Context(), "password"); {
			case err == nil:
				done.Add(1)
			case errors.Is(err, password.ErrBusy):
				if busy.Add(1) == 1000-2-64 {
					close(release) // all have arrived: two hash, 64 wait
				}
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if done.Load() != 66 || most.Load() != 2 {
		t.Errorf("%d hashed, %d refused, %d in parallel", done.Load(), busy.Load(), most.Load())
	}
}

// A canceled wait frees its place in the queue.
func TestWaitingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	release, began := make(chan struct{}), make(chan struct{})
	h := hasher(t, cheap, 1, func() { close(began); <-release })
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = h.Hash(t.Context(), "password") })
	<-began
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := h.Hash(ctx, "password"); !errors.Is(err, password.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	close(release)
	wg.Wait()
}

func TestAccept(t *testing.T) {
	t.Parallel()
	known := []string{"+8613800138000", "Wang Xiaoming", "Stampede"}
	for pw, ok := range map[string]bool{
		"correct horse": true, "12 zeichen ümläut": true, "13800138001": true, "00138000x": true, strings.Repeat("ab", 64): true, strings.Repeat("密码", 64): true, "长长长长长长密码": true, "丁七万三上下不与": true,
		"": false, "seven77": false, strings.Repeat("ab", 65): false, "zzzzzzzzz": false, "password": false, "PassWord": false, "5201314520": false,
		"四个字符四个字": false, strings.Repeat("密", 9): false, strings.Repeat("密码", 65): false, "qwertyuiop": false, "Chocolate1": false, "thunderbird": false,
		"stampede": false, "Stampede2026!": false, "123stampede": false, "stampede sells": true, "wang xiaoming1": false,
		"13800138000": false, "+86 138 0013 8000": false, "00138000": false, "wang xiaoming": false,
	} {
		if err := password.Accept(pw, known...); (err == nil) != ok {
			t.Errorf("Accept(%q) = %v", pw, err)
		}
	}
	require.NoError(t, password.Accept("correct horse", "", " ")) // without anything known
}

// Any string parses or is refused, and a parsed one encodes to the same text.
func FuzzParse(f *testing.F) {
	h := hasher(f, cheap, 1, nil)
	phc, err := h.Hash(f.Context(), "password")
	require.NoError(f, err)
	for _, seed := range []string{phc, phc + "$", "", "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$RdescudvJCsgt3ub+b3dWA"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if back, ok := password.Reformat(s); ok && back != s {
			t.Errorf("%q parses and encodes as %q", s, back)
		}
	})
}

// TestAttackPresetsBelowTheFloor: no setting stores passwords more cheaply than
// OWASP recommends.
func TestAttackPresetsBelowTheFloor(t *testing.T) {
	t.Parallel()
	for _, cost := range []password.Cost{password.Interactive, password.Moderate, password.Sensitive, "", "unknown"} {
		if p := cost.Params(); p.MemoryKiB < 19<<10 || p.Passes < 2 || p.Threads < 1 { // their floor: 19 MiB, 2 passes
			t.Errorf("%q costs %+v", cost, p)
		}
	}
}
