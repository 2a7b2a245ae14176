// Package clients plays the quick start's programs against the running program, with the clients that their generators
// make from the document as it is served.
package clients

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/quickstart"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
	"stampede/platform/workshop/tooltest"
)

// TestQuickStartSells: the programs on the page /docs/start plan a sale, sell a unit, verify the delivery of the paid order
// and end. The Go and the TypeScript program are compiled with a client of the served document, so that it is red when a
// generator refuses the document, when its code does not compile, or when an answer does not fit it. What compiles TypeScript
// without checking types (esbuild, newer nodes) would let every wrong name pass, so it is tsc that node runs here.
func TestQuickStartSells(t *testing.T) {
	t.Parallel()
	in := shop.Serve(t, pgtest.DatabaseURL(t), pgtest.RedisURL(t), "--webhook-private")
	admin := shop.Mint(t, 1, auth.Admin)
	made := in.Do(t, http.MethodPost, "/api/v1/admin/api-keys", admin, map[string]any{"name": "Quick start", "scopes": []string{"plan:write", "users:exchange", "orders:read", "events:read"}}, http.StatusCreated)
	for file, start := range map[string]func(t *testing.T, p *play) []string{"sale.go": withGo, "sale.ts": withTypeScript, "sale.sh": withCurl} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			p := &play{dir: t.TempDir(), listen: shop.FreeAddr(t)}
			hook := in.Do(t, http.MethodPost, "/api/v1/admin/webhooks", admin, map[string]any{"url": "http://" + p.listen + "/stampede", "types": []string{"order.paid"}}, http.StatusCreated)
			p.env = append(os.Environ(), "SHOP="+in.URL, "KEY="+made["key"].(string), "SECRET="+hook["secret"].(string), "LISTEN="+p.listen, "GOFLAGS=-trimpath", "GOWORK=off")
			require.NoError(t, os.WriteFile(filepath.Join(p.dir, file), shop.Fetch(t, in.URL+"/docs/start/"+file).Raw, 0o600))
			command := start(t, p)
			program := exec.CommandContext(t.Context(), command[0], command[1:]...) //nolint:gosec // the examples
			var out strings.Builder
			program.Dir, program.Env, program.Stdout, program.Stderr = p.dir, p.env, &out, &out
			require.NoError(t, program.Start())
			if file != "sale.sh" { // it pulls
				p.refusesForgeries(t)
			}
			err := program.Wait()
			paid := regexp.MustCompile(`(?m)^paid ([0-9a-f]{32})$`).FindStringSubmatch(out.String())
			if err != nil || paid == nil {
				t.Fatalf("the program ended with %v and printed:\n%s", err, &out)
			}
			order := in.Do(t, http.MethodGet, "/api/v1/admin/orders/"+paid[1], admin, nil, http.StatusOK)["order"]
			require.Equal(t, "the order", order.(map[string]any)["status"], any("paid"))
			if p.after != nil {
				p.after(t)
			}
		})
	}
}

// play is a program of the quick start in a folder.
type play struct {
	dir, listen string
	env         []string
	after       func(t *testing.T) // checks more once the program has ended well; may be nil
}

// refusesForgeries posts an event without a signature to the program, which its sale still has to open.
func (p *play) refusesForgeries(t *testing.T) {
	t.Helper()
	pgtest.Eventually(t, time.Minute, func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.listen+"/stampede", strings.NewReader(`{"id":"1-0","type":"order.paid","timestamp":"2026-11-11T12:00:00.000Z","data":{}}`))
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			return false // it does not listen yet
		}
		_ = answer.Body.Close()
		require.Equal(t, "the answer to a forgery", answer.StatusCode, http.StatusBadRequest)
		return true
	}, "the program to listen")
}

// bring copies files into the folder.
func (p *play) bring(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		raw, err := os.ReadFile(name) //nolint:gosec // the repository's
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(p.dir, filepath.Base(name)), raw, 0o600))
	}
}

// run runs a script in the folder.
func (p *play) run(t *testing.T, script string, args ...string) error {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{"-euc", script, "bash"}, args...)...) //nolint:gosec // the examples
	cmd.Dir, cmd.Env = p.dir, p.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("%s\nprinted %s", script, out)
	}
	return err
}

// fetches matches the commands that need a network, and go mod init: .ci/clients has the module's file.
var fetches = regexp.MustCompile(`^(curl -O|go mod init|go get|npm install) `)

// builds runs the page's commands that make a client and compile the program. Those that fetch the generators name the
// versions that .ci/clients pins, whose files .ci/setup has fetched and compared with their checksums.
func (p *play) builds(t *testing.T, language, pins string) {
	t.Helper()
	raw, err := os.ReadFile(pins) //nolint:gosec // the repository's
	require.NoError(t, err)
	var makes []string
	for line := range strings.Lines(quickstart.Cut("make.sh", language)) {
		if !fetches.MatchString(line) {
			makes = append(makes, strings.ReplaceAll(line, "npx ", filepath.Join(p.dir, "node_modules", ".bin")+"/"))
			continue
		}
		for _, pin := range regexp.MustCompile(`(\S+)@(\S+)`).FindAllStringSubmatch(line, -1) {
			module := strings.TrimSuffix(pin[1], "/cmd/oapi-codegen")
			if !slices.ContainsFunc([]string{module + " " + pin[2], `"` + module + `": "` + pin[2] + `"`}, func(s string) bool { return strings.Contains(string(raw), s) }) {
				t.Errorf("%s does not pin %s", pins, pin[0])
			}
		}
	}
	require.NoError(t, p.run(t, strings.Join(makes, "")))
}

func withGo(t *testing.T, p *play) []string {
	t.Helper()
	p.bring(t, ".ci/clients/go.mod", ".ci/clients/go.sum")
	p.builds(t, "go", ".ci/clients/go.mod")
	return []string{filepath.Join(p.dir, "sale")}
}

func withTypeScript(t *testing.T, p *play) []string {
	t.Helper()
	node, packages := tooltest.Node(t)
	require.NoError(t, os.Symlink(packages, filepath.Join(p.dir, "node_modules")))
	p.builds(t, "ts", ".ci/clients/package.json")
	return []string{node, filepath.Join(p.dir, "sale.js")}
}

// withCurl also hands the script's verify a delivery of another order, which it must know from a forged one.
func withCurl(t *testing.T, p *play) []string {
	t.Helper()
	type delivery struct {
		header http.Header
		body   string
	}
	deliveries := make(chan delivery, 10)
	server := &http.Server{Addr: p.listen, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a cut body is not verified
		deliveries <- delivery{r.Header, string(body)}
	})}
	go func() { _ = server.ListenAndServe() }()
	t.Cleanup(func() { _ = server.Close() })
	p.after = func(t *testing.T) {
		t.Helper()
		var got delivery
		select {
		case got = <-deliveries:
		case <-time.After(time.Minute):
			t.Fatal("nothing was delivered")
		}
		id, at, signature := got.header.Get("Webhook-Id"), got.header.Get("Webhook-Timestamp"), got.header.Get("Webhook-Signature")
		verify := regexp.MustCompile(`(?s)verify\(\) \{.*`).FindString(quickstart.Cut("sale.sh", "receive")) + "\nverify \"$@\""
		require.NoError(t, p.run(t, verify, id, at, signature, got.body))
		require.NoError(t, p.run(t, verify, id, at, "v1,abc "+signature, got.body))
		for _, forged := range [][]string{{id + "1", at, signature, got.body}, {id, "1" + at, signature, got.body}, {id, at, "v1,", got.body}, {id, at, signature, got.body + " "}} {
			if err := p.run(t, verify, forged...); err == nil {
				t.Errorf("the script takes %q", forged)
			}
		}
	}
	tooltest.Command(t, "curl")
	tooltest.Command(t, "openssl")
	return []string{"bash", filepath.Join(p.dir, "sale.sh")}
}
