package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/humancheck"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

const (
	oneKey     = "6f1c0a92d8e54b7391aa02c4f1e0d9b8"
	anotherKey = "0b5d7e93c1a84f62b7d03e9a6c58f214"
)

// newTestSettings returns a server's settings with those of one part.
func newTestSettings() Settings {
	var set struct {
		Base     `embed:""`
		Requests httpx.Settings `embed:"" group:"Limits:"`
	}
	return Settings{Base: &set.Base, Plugins: kong.Plugins{&set}}
}

// carryOut runs one of the commands that start no server.
func carryOut(ctx context.Context, prove Prover, args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	code = Main(ctx, Program{Settings: newTestSettings(), Prove: prove, Version: "test"}, args, Streams{Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

// TestServeAndConfigReportAllErrors checks that both report every error
// together, with one exit code: operators run config before a restart.
func TestServeAndConfigReportAllErrors(t *testing.T) {
	t.Parallel()
	wrong := []string{"--redis-url=h:6379", "--signing-key=short", "--listen=nowhere", "--max-in-flight=-1"}
	about := []string{"--database-url and --redis-url are needed", "--redis-url must be like", "STAMPEDE_SIGNING_KEY must be", "--max-in-flight must be", "--listen must be"}
	for command, prefix := range map[string]string{"serve": "stampede: serve: ", "config": "stampede: serve would refuse this: "} {
		code, out, errs := carryOut(t.Context(), nil, append([]string{command}, wrong...)...)
		if command == "config" && !strings.Contains(out, "nowhere") { // an operator runs it to see what is wrong
			t.Errorf("config does not print what it refuses:\n%s", out)
		}
		lines := strings.Split(strings.TrimSpace(errs), "\n")
		if command == "serve" {
			lines = slices.DeleteFunc(lines, func(l string) bool { return l == "Try: stampede serve --help" })
		}
		if code != exitUsage || len(lines) != len(about) {
			t.Fatalf("%s: exit %d, want 2 and %d lines:\n%s", command, code, len(about), errs)
		}
		for i, want := range about {
			if !strings.HasPrefix(lines[i], prefix+want) {
				t.Errorf("%s printed %q, want %q", command, lines[i], prefix+want)
			}
		}
	}
	code, _, errs := carryOut(t.Context(), nil, "config", "--database-url=postgres://h/d", "--redis-url=redis://h:1", "--signing-key="+oneKey)
	require.Equal(t, "exit code for valid settings: "+errs, code, 0)
}

// TestSolveDoesTheWorkOfAnAnswer takes the refusal or its challenge alone.
func TestSolveDoesTheWorkOfAnAnswer(t *testing.T) {
	t.Parallel()
	const challenge = `{"kind":"pow","challenge":"abc","difficulty":8}`
	for _, answer := range []string{challenge, `{"code":"human-check-required","kind":"pow","challenge":` + challenge + `}`} {
		code, out, errs := carryOut(t.Context(), nil, "solve", answer)
		want, err := humancheck.Solve(t.Context(), "abc", 8)
		if code != 0 || err != nil || out != want+"\n" {
			t.Errorf("%s: exit %d, printed %q %s, want %q", answer, code, out, errs, want)
		}
	}
	for _, answer := range []string{`{"expires_in":300}`, `{"kind":"slide","challenge":"abc"}`, `no JSON`} {
		if code, out, _ := carryOut(t.Context(), nil, "solve", answer); code == 0 || out != "" {
			t.Errorf("%s: exit %d, printed %q", answer, code, out)
		}
	}
}

// TestServeHelpBeginsWithRequiredFlags checks all three of them.
func TestServeHelpBeginsWithRequiredFlags(t *testing.T) {
	t.Parallel()
	code, help, _ := carryOut(t.Context(), nil, "serve", "--help")
	at := func(text string) int { return strings.Index(help, "\n"+text) }
	if code != 0 || at("Required") < 0 || at("Required") > at("NATS:") || at("  --redis-url") > at("NATS:") || at("  --signing-key") > at("NATS:") {
		t.Errorf("exit %d, the three required flags do not come first:\n%s", code, help)
	}
}

// TestDataFlagOverridesVariables checks that --data overrides the shell's
// variables, and that a key found in a folder is announced.
func TestDataFlagOverridesVariables(t *testing.T) {
	ours := t.TempDir()
	_, err := keepStack(ours, Noted{SigningKey: oneKey, DatabaseURL: "postgres://ours/d", RedisURL: "redis://ours:1"})
	require.NoError(t, err)
	t.Setenv("STAMPEDE_DATA", ours)
	for _, c := range []struct {
		name, variable, key, said string
		args                      []string
	}{
		{"the folder before the variable", anotherKey, oneKey, "", []string{"--data=" + ours}},
		{"the flag before the folder", anotherKey, anotherKey, "", []string{"--data=" + ours, "--signing-key=" + anotherKey}},
		{"the variable without a folder", anotherKey, anotherKey, "", nil},
		{"the default folder", "", oneKey, "Signed with the key of " + ours + "; --data names another folder.\n", nil},
	} {
		t.Setenv("STAMPEDE_SIGNING_KEY", c.variable)
		code, out, errs := carryOut(t.Context(), nil, append([]string{"token", "--user=7"}, c.args...)...)
		p, err := auth.NewTokens([]byte(c.key), time.Now).Verify(strings.TrimSpace(out))
		errs, _, warned := strings.Cut(errs, "The audit log does not record this token: ")
		if code != 0 || err != nil || p.UserID != 7 || errs != c.said || !warned {
			t.Errorf("%s: exit %d, %+v, %v, printed %q, want %q", c.name, code, p, err, errs, c.said)
		}
	}
	// verify uses that folder too, and not the stores of the shell's variables.
	t.Setenv("STAMPEDE_DATABASE_URL", "postgres://h.invalid/d")
	t.Setenv("STAMPEDE_REDIS_URL", "redis://h.invalid:1")
	if code, _, errs := carryOut(t.Context(), nil, "verify", "--data="+t.TempDir()); code != exitBlind || !strings.Contains(errs, "no stack is known there") {
		t.Errorf("verify of an empty folder: exit %d\n%s", code, errs)
	}
}

// TestMistypedVariableIsNamed checks config, and an error that the variable may
// explain.
func TestMistypedVariableIsNamed(t *testing.T) {
	t.Setenv("STAMPEDE_DATABSE_URL", "postgres://u:planted-secret@h/d")
	t.Setenv("STAMPEDE_NONSENSE", "planted-secret")
	const want = "stampede: STAMPEDE_DATABSE_URL is not a setting; did you mean STAMPEDE_DATABASE_URL?\nstampede: STAMPEDE_NONSENSE is not a setting\n"
	for _, command := range []string{"config", "serve"} {
		if _, out, errs := carryOut(t.Context(), nil, command); !strings.Contains(errs, want) || strings.Contains(out+errs, "planted-secret") {
			t.Errorf("%s: want %q in\n%s", command, want, errs)
		}
	}
}

func TestForeignVariablesAreIgnored(t *testing.T) {
	t.Parallel()
	var table struct {
		Serve Serve `cmd:""`
	}
	table.Serve.Settings = newTestSettings()
	parser, err := kong.New(&table)
	require.NoError(t, err)
	got := findUnknownVariables([]string{
		"PATH=/bin", "STAMPEDE_LISTEN=:1", "STAMPEDE_FAILPOINTS=", "STAMPEDE_TEST_REDIS_URL=x", "STAMPEDE_SERVICE_HOST=10.0.0.1", "STAMPEDE_SERVICE_PORT_HTTP=80",
		"STAMPEDE_PORT=tcp://10.0.0.1:80", "STAMPEDE_REDIS_PORT_6379_TCP_ADDR=10.0.0.2", "STAMPEDE_MAX_IN_FLIHGT=30",
	}, parser.Model)
	require.Equal(t, "unknown variables", got, unknownVariables{"STAMPEDE_MAX_IN_FLIHGT is not a setting; did you mean STAMPEDE_MAX_IN_FLIGHT?"})
}

// TestVerifyJSON checks that the JSON has the tables' contents and the same exit codes.
func TestVerifyJSON(t *testing.T) {
	t.Parallel()
	stores := []string{"--database-url=" + pgtest.DatabaseURL(t), "--redis-url=" + pgtest.RedisURL(t)}
	for _, c := range []struct {
		check proof.Outcome
		code  int
	}{
		{proof.Outcome{ID: "I1", Name: "never oversold", Violations: []proof.Violation{}}, 0},
		{proof.Outcome{ID: "I1", Name: "never oversold", Violations: []proof.Violation{{Subject: "item 7", Detail: "one too many"}}}, 1},
		{proof.Outcome{ID: "I1", Name: "never oversold", Violations: []proof.Violation{}, Error: "away"}, exitBlind},
	} {
		prove := func(context.Context, Stores, int64, []proof.ClientRecord) (Evidence, error) {
			return Evidence{Books: []map[string]int{{"sold": 3}}, Checks: []proof.Outcome{c.check}}, nil
		}
		code, out, _ := carryOut(t.Context(), prove, append([]string{"verify", "--json"}, stores...)...)
		var got struct {
			BooksProved *bool            `json:"books_proved"`
			Books       []map[string]int `json:"books"`
			Checks      []proof.Outcome  `json:"checks"`
		}
		require.NoError(t, json.Unmarshal([]byte(out), &got))
		if code != c.code || got.BooksProved == nil || *got.BooksProved != (c.code == 0) || len(got.Books) != 1 || got.Books[0]["sold"] != 3 ||
			len(got.Checks) != 1 || got.Checks[0].Error != c.check.Error || len(got.Checks[0].Violations) != len(c.check.Violations) {
			t.Errorf("exit %d, want %d, with\n%s", code, c.code, out)
		}
	}
}

// TestVerifySaysWhatItDidNotLookAt: what waits in NATS is known to a server only.
func TestVerifySaysWhatItDidNotLookAt(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, "# TYPE stampede_bus_grants_messages gauge\nstampede_bus_grants_messages 3\n")
	}))
	defer server.Close()
	prove := func(context.Context, Stores, int64, []proof.ClientRecord) (Evidence, error) {
		return Evidence{WriteBooks: func(io.Writer) error { return nil }}, nil
	}
	verify := []string{"verify", "--data=" + t.TempDir(), "--database-url=" + pgtest.DatabaseURL(t), "--redis-url=" + pgtest.RedisURL(t)}
	const blind = "are not looked at without --metrics-url"
	if code, out, _ := carryOut(t.Context(), prove, verify...); code != 0 || !strings.Contains(out, blind) {
		t.Errorf("exit %d with\n%s", code, out)
	}
	code, out, _ := carryOut(t.Context(), prove, append(verify, "--metrics-url="+server.URL)...)
	if code != 1 || strings.Contains(out, blind) || !strings.Contains(out, "grants: 3 messages wait and none was handled") {
		t.Errorf("with a server whose writer stands still: exit %d with\n%s", code, out)
	}
}

func TestMigratePrintsVersions(t *testing.T) {
	t.Parallel()
	code, out, errs := carryOut(t.Context(), nil, "migrate", "--data="+t.TempDir())
	if code != 1 || !strings.Contains(errs, errNoDatabase.Error()) {
		t.Errorf("migrate of no database: exit %d\n%s%s", code, out, errs)
	}
	code, out, errs = carryOut(t.Context(), nil, "migrate", "--database-url="+pgtest.DatabaseURL(t)) // already migrated
	if code != 0 || !strings.HasPrefix(out, "The database already has schema version ") || !strings.HasSuffix(out, "; there was nothing to do.\n") {
		t.Errorf("exit %d, %q\n%s", code, out, errs)
	}
	code, out, errs = carryOut(t.Context(), nil, "migrate", "--database-url="+pgtest.EmptyDatabaseURL(t))
	if code != 0 || !strings.HasPrefix(out, "The database was migrated from schema version 0 to ") {
		t.Errorf("exit %d, %q\n%s", code, out, errs)
	}
}

// TestBackupAndRestoreByVariables names the places, which may contain a bucket's secret, in the environment. The database
// is no shop, so that no webhook can be disabled after pg_restore: the key of what is restored stays.
func TestBackupAndRestoreByVariables(t *testing.T) {
	dir := t.TempDir()
	key, signing := filepath.Join(dir, "key"), filepath.Join(dir, "signing")
	t.Setenv("STAMPEDE_BACKUP_TO", dir)
	code, _, errs := carryOut(t.Context(), nil, "backup", "--database-url="+pgtest.EmptyDatabaseURL(t), "--signing-key="+oneKey, "--new-key="+key, "--data="+dir)
	require.Equal(t, "exit code of backup: "+errs, code, 0)
	files, err := filepath.Glob(filepath.Join(dir, "*.age"))
	require.NoError(t, err)
	t.Setenv("STAMPEDE_RESTORE_FROM", files[0])
	code, _, errs = carryOut(t.Context(), nil, "restore", "--trial", "--key="+key, "--database-url="+pgtest.EmptyDatabaseURL(t), "--key-to="+signing)
	require.Equal(t, "exit code of restore", code, 1)
	require.Contains(t, "restore", errs, "the shop is restored, but its webhooks are not disabled")
	raw, err := os.ReadFile(signing)
	require.NoError(t, err)
	require.Equal(t, "the signing key", string(raw), oneKey)
	_, _, errs = carryOut(t.Context(), nil, "config")
	require.Equal(t, "unknown variables", strings.Contains(errs, "STAMPEDE_RESTORE_FROM"), false)
}

// TestInterruptedRushIsNotAFailure: the operator who pressed Ctrl-C knows why it ended.
func TestInterruptedRushIsNotAFailure(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	code, _, errs := carryOut(ctx, nil, "rush", "--item=1", "--url="+server.URL, "--signing-key="+oneKey, "--data="+t.TempDir())
	require.Equal(t, "exit code", code, exitInterrupted)
	require.Equal(t, "errors", errs, "stampede: interrupted in the phase \"look\"; nothing was rushed\n")
}

// TestStopIsAnnounced checks both the sentences and the JSON log lines.
func TestStopIsAnnounced(t *testing.T) {
	t.Parallel()
	for format, want := range map[string][]string{
		"text": {"Stopping: requests in flight", "Stopped in 0.0 s."},
		"json": {`"msg":"stopping"`, `"msg":"stopped"`},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		serve := func(ctx context.Context, _ Streams, _ Stack, show func(Parts) error) error {
			if err := show(Parts{}); err != nil {
				return err
			}
			cancel()
			<-ctx.Done()
			return nil
		}
		var errs bytes.Buffer
		err := serveToTheEnd(ctx, Streams{Out: io.Discard, Err: &errs}, format, serve, nil, func(Parts) error { return nil })
		lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
		if err != nil || len(lines) != 2 || !strings.Contains(lines[0], want[0]) || !strings.Contains(lines[1], want[1]) {
			t.Errorf("%s: %v, said\n%s", format, err, errs.String())
		}
	}
	// A server that ends on its own returns an error that says why.
	var errs bytes.Buffer
	fault := errors.New("the lock is lost")
	serve := func(context.Context, Streams, Stack, func(Parts) error) error { return fault }
	if err := serveToTheEnd(t.Context(), Streams{Err: &errs}, "text", serve, nil, nil); !errors.Is(err, fault) || errs.Len() > 0 {
		t.Errorf("%v, said %q", err, errs.String())
	}
}

// TestPrintedCommandsCanBeTyped checks commands from any folder.
func TestPrintedCommandsCanBeTyped(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a program found by its name", self("stampede"), "stampede")
	if got := self(".tools/bin/stampede"); !strings.HasPrefix(got, "/") || !strings.HasSuffix(got, "/cli/.tools/bin/stampede") {
		t.Errorf("found below the working folder: %q", got)
	}
	for text, want := range map[string]string{"/srv/shop-1": "/srv/shop-1", "/my data": "'/my data'", "it's": `'it'\''s'`, "": "''", "$HOME": "'$HOME'"} {
		require.Equal(t, "the word for "+text, word(text), want)
	}
}

// report is a reconciler's result.
type report struct {
	N int `json:"open"`
}

func (r report) Open() int               { return r.N }
func (r report) Next() string            { return "ask a friend" }
func (r report) Write(w io.Writer) error { _, err := io.WriteString(w, "a table"); return err }

func TestReconcileExitCodes(t *testing.T) {
	t.Parallel()
	stores := []string{"--database-url=" + pgtest.DatabaseURL(t), "--redis-url=" + pgtest.RedisURL(t)}
	for _, c := range []struct {
		args   []string
		open   int
		err    error
		repair bool
		code   int
		out    string
	}{
		{nil, 0, nil, false, 0, "a table"},
		{[]string{"--repair", "--item=7"}, 0, nil, true, 0, "a table"},
		{[]string{"--repair", "--dry-run", "--item=7"}, 2, nil, false, 1, "a table"},
		{[]string{"--json"}, 1, nil, false, 1, `"open": 1`},
		{nil, 0, errors.New("no answer"), false, exitBlind, ""},
	} {
		repaired := false
		reconcile := func(_ context.Context, _ Stores, _ int64, repair bool) (Differences, error) {
			repaired = repair
			return report{c.open}, c.err
		}
		var out, errs bytes.Buffer
		code := Main(t.Context(), Program{Settings: newTestSettings(), Reconcile: reconcile}, slices.Concat([]string{"reconcile"}, c.args, stores), Streams{Out: &out, Err: &errs})
		if code != c.code || repaired != c.repair || !strings.Contains(out.String(), c.out) || (code == 1) != strings.Contains(errs.String(), fmt.Sprintf("%d differences remain: ask a friend", c.open)) {
			t.Errorf("%v: exit %d, repair %t, %q %q", c.args, code, repaired, out.String(), errs.String())
		}
	}
}

func TestReconcilePaymentsExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  []string
		open  int
		err   error
		asked string
		code  int
		out   string
	}{
		{[]string{"--date=2026-11-22"}, 0, nil, "http://127.0.0.1:8080 2026-11-22  false", 0, "a table"},
		{[]string{"--date=2026-11-22", "--provider=wechat", "--apply", "--url=http://shop/"}, 2, nil, "http://shop 2026-11-22 wechat true", 1, "a table"},
		{[]string{"--date=2026-11-22", "--json"}, 1, nil, "http://127.0.0.1:8080 2026-11-22  false", 1, `"open": 1`},
		{[]string{"--date=2026-11-22"}, 0, errors.New("not fetched"), "http://127.0.0.1:8080 2026-11-22  false", exitBlind, "not fetched"},
		{[]string{"--date=yesterday"}, 0, nil, "", exitUsage, "--date must be a day"},
		{nil, 0, nil, "", exitUsage, "Try: stampede reconcile payments --help"},
	} {
		asked := ""
		compare := func(_ context.Context, server, token, date, provider string, apply bool) (Differences, error) {
			asked = fmt.Sprintf("%s %s %s %t", server, date, provider, apply)
			if token == "" {
				t.Error("no token")
			}
			return report{c.open}, c.err
		}
		var out bytes.Buffer
		args := slices.Concat([]string{"reconcile", "payments"}, c.args, []string{"--signing-key=" + oneKey, "--data=" + t.TempDir()})
		code := Main(t.Context(), Program{Settings: newTestSettings(), Statement: compare}, args, Streams{Out: &out, Err: &out})
		if code != c.code || asked != c.asked || !strings.Contains(out.String(), c.out) || (code == 1) != strings.Contains(out.String(), "differences remain: ask a friend") {
			t.Errorf("%v: exit %d, asked %q: %q", c.args, code, asked, out.String())
		}
	}
}

// TestAttackPlantedStackFile plants links under the name that `run` writes the
// signing key to.
func TestAttackPlantedStackFile(t *testing.T) {
	t.Parallel()
	for how, plant := range map[string]func(target, name string) error{"symbolic": os.Symlink, "hard": os.Link} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir, precious := t.TempDir(), filepath.Join(t.TempDir(), "precious")
			require.NoError(t, os.WriteFile(precious, []byte(`"keep me"`), 0o600))
			require.NoError(t, plant(precious, filepath.Join(dir, stackFile)))
			_, err := keepStack(dir, Noted{SigningKey: oneKey, DatabaseURL: "postgres://ours/d"})
			if raw, readErr := os.ReadFile(precious); readErr != nil || string(raw) != `"keep me"` {
				t.Errorf("the other file was written to: %q, %v", raw, readErr)
			}
			if got, readErr := ReadStack(dir); err != nil || readErr != nil || got.SigningKey != oneKey {
				t.Errorf("the stack was not stored: %v, %v", err, readErr)
			}
		})
	}
}

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestInterruptedMatchesOnlyErrorsOfTheInterrupt(t *testing.T) {
	t.Parallel()
	cut := fmt.Errorf("start the server: %w", context.Canceled)
	fault := errors.New("stop the server: it is still there")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{context.Canceled, true},
		{cut, true},
		{errors.Join(cut, nil), true},
		{errors.Join(errors.Join(cut, cut), cut), true},
		{fault, false},
		{errors.Join(cut, fault), false},
		{errors.Join(errors.Join(cut, fault), cut), false},
		{fmt.Errorf("start the server: %w", context.DeadlineExceeded), false},
	} {
		require.Equal(t, fmt.Sprint(c.err), interrupted(c.err), c.want)
	}
}
