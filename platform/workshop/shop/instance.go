package shop

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/loadgen"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// Key is the signing key of the servers that Serve starts.
const Key = "6f1c0a92d8e54b7391aa02c4f1e0d9b8e5"

// Console collects a command's output and lets a test wait for a line.
type Console struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	News chan struct{}
}

// NewConsole returns an empty one.
func NewConsole() *Console { return &Console{News: make(chan struct{}, 1)} }

func (c *Console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	app.Kick(c.News)
	return c.buf.Write(p)
}

func (c *Console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.String()
}

// Await returns the first submatch of the pattern once it is printed, or fails
// if ended closes or the time runs out first.
func (c *Console) Await(t *testing.T, pattern string, within time.Duration, ended <-chan struct{}) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	timeout := time.After(within)
	for {
		if m := re.FindStringSubmatch(c.String()); m != nil {
			return m[len(m)-1]
		}
		select {
		case <-c.News:
		case <-ended:
			t.Fatalf("the command exited without printing %q:\n%s", pattern, c)
		case <-timeout:
			t.Fatalf("%q was not printed within %s:\n%s", pattern, within, c)
		}
	}
}

// Instance is a `stampede serve` in a process of its own.
type Instance struct {
	URL   string
	Out   *Console
	Err   *Console
	Ended <-chan struct{} // closes when the process has ended
	Stop  func() int      // stops it like Ctrl-C and returns the exit code
	Kill  func()          // as a machine that fails does

	unchecked bool // of another release, whose answers have another form
}

// Serve starts `stampede serve` on free ports with the given stores, and returns once it is ready.
func Serve(t *testing.T, databaseURL, redisURL string, args ...string) *Instance {
	t.Helper()
	return ServeWith(t, Program(t), databaseURL, redisURL, args...)
}

// ServeWith is Serve of another program, whose answers are not compared with this one's API document.
func ServeWith(t *testing.T, program, databaseURL, redisURL string, args ...string) *Instance {
	t.Helper()
	in := &Instance{Out: NewConsole(), Err: NewConsole(), unchecked: program != Program(t)}
	cmd := exec.Command(program, append([]string{ //nolint:gosec,noctx // the program under test; launch ends it
		"serve", "--listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--database-url=" + databaseURL, "--redis-url=" + redisURL,
		"--signing-key=" + Key, "--nats-dir=" + filepath.Join(t.TempDir(), "nats"), "--sandbox-bank", "--log-level=warn",
		"--max-conns=28",
		"--paths-per-minute=0", "--rushes-per-second=0", "--units-return-within=0s", // tests are quicker than people
	}, args...)...)
	cmd.Stdout, cmd.Stderr = in.Out, in.Err
	in.Ended = launch(t, cmd, in.Out, in.Err)
	in.Stop = func() int {
		_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended
		select {
		case <-in.Ended:
		case <-time.After(stopWithin):
			t.Errorf("the server did not stop within %s", stopWithin)
			_ = cmd.Process.Kill()
			<-in.Ended
		}
		return cmd.ProcessState.ExitCode()
	}
	in.Kill = func() {
		_ = cmd.Process.Kill() // it may have ended
		<-in.Ended
	}
	in.URL = in.Out.Await(t, `serves (\S+);`, 60*time.Second, in.Ended)
	return in
}

// Call sends a request and decodes the answer, whatever its status.
func (in *Instance) Call(t *testing.T, method, path, token string, body any) (status int, doc map[string]any) {
	t.Helper()
	text := ""
	if body != nil {
		raw, err := json.Marshal(body)
		require.NoError(t, err)
		text = string(raw)
	}
	target := path
	if strings.HasPrefix(path, "/") {
		target = in.URL + path
	}
	client := Checked(t)
	if in.unchecked {
		client = http.DefaultClient
	}
	a := httpxtest.Send(t, client, method, target, token, text)
	if len(a.Raw) > 0 && a.Doc == nil {
		t.Fatalf("%s %s answered %d without JSON: %s", method, path, a.Status, a.Raw)
	}
	return a.Status, a.Doc
}

// Do sends a request that must be answered with a status, and returns the answer.
func (in *Instance) Do(t *testing.T, method, path, token string, body any, status int) map[string]any {
	t.Helper()
	got, doc := in.Call(t, method, path, token, body)
	if got != status {
		t.Fatalf("%s %s answered %d, want %d: %v", method, path, got, status, doc)
	}
	return doc
}

// Plan publishes a sale of stock units that opens after the given time.
func (in *Instance) Plan(t *testing.T, stock int, opensIn time.Duration) loadgen.Planned {
	t.Helper()
	planned, err := loadgen.PlanSale(t.Context(), in.URL, Mint(t, 1, auth.Operator), loadgen.Sale{
		Name: "Test sale", Title: "Test phone", Stock: stock, OpensAt: time.Now().Add(opensIn), Open: 10 * time.Minute, PayAfter: 10 * time.Minute,
	})
	require.NoError(t, err)
	return planned
}

// Publish plans and publishes an activity, as the API has it, and returns the id of its first item.
func (in *Instance) Publish(t *testing.T, activity map[string]any) (item string) {
	t.Helper()
	operator := Mint(t, 1, auth.Operator)
	made := in.Do(t, http.MethodPost, "/api/v1/admin/activities", operator, activity, http.StatusCreated)
	id := made["id"].(string) //nolint:errcheck // a string, or the contract is broken
	in.Do(t, http.MethodPost, "/api/v1/admin/activities/"+id+"/publish", operator, nil, http.StatusOK)
	return made["sessions"].([]any)[0].(map[string]any)["items"].([]any)[0].(map[string]any)["id"].(string) //nolint:errcheck // likewise
}

// Send sends a rush path through an instance and returns the code, "" for 202.
func (in *Instance) Send(t *testing.T, path string) string {
	t.Helper()
	status, doc := in.Call(t, http.MethodPost, "/api/v1/rush/"+path, "", nil)
	if status == http.StatusAccepted {
		return ""
	}
	code, _ := doc["code"].(string)
	return code
}

// OpsURL returns the instance's ops address.
func (in *Instance) OpsURL(t *testing.T) string {
	t.Helper()
	return in.Out.Await(t, `health at (http://\S+)/readyz`, 10*time.Second, in.Ended)
}

// AwaitLoaded returns when the item is loaded in Redis.
func (in *Instance) AwaitLoaded(t *testing.T, item string) {
	t.Helper()
	operator := Mint(t, 1, auth.Operator)
	pgtest.Eventually(t, 30*time.Second, func() bool {
		_, funnel := in.Call(t, http.MethodGet, "/api/v1/admin/items/"+item+"/funnel", operator, nil)
		return funnel["loaded"] == true
	}, "the item is loaded")
}

// Mint signs a token of an hour for a user of a server that Serve started.
func Mint(t *testing.T, user int64, role auth.Role) string {
	t.Helper()
	return httpxtest.Token(t, auth.NewTokens([]byte(Key), time.Now), auth.Principal{UserID: user, Role: role})
}

// Get returns the status of a URL that needs no token.
func Get(t *testing.T, url string) int {
	t.Helper()
	return Fetch(t, url).Status
}

// Fetch reads a URL that needs no token.
func Fetch(t *testing.T, url string) httpxtest.Answer {
	t.Helper()
	return httpxtest.Send(t, http.DefaultClient, http.MethodGet, url, "", "")
}
