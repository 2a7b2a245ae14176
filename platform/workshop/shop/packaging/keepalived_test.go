package packaging

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/platform/workshop/shop"
	"stampede/platform/workshop/tooltest"
)

// TestPackagingAddressMoves runs both examples as they are, on two machines of nginx in front of one of Stampede, each a
// network namespace: in mid-sale nginx is killed on the machine that has the address, and then the other one is cut off.
func TestPackagingAddressMoves(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	nginx, keepalived := tooltest.Command(t, "nginx"), tooltest.Command(t, "keepalived")
	curl := tooltest.Command(t, "curl")
	databaseURL, redisURL := pgtest.DatabaseURL(t), pgtest.RedisURL(t) // unix sockets, which every namespace reaches
	stores := []string{"--database-url=" + databaseURL, "--redis-url=" + redisURL, "--data=" + t.TempDir()}

	n.machine("client", "10.0.0.50")
	n.machine("shop", "10.0.0.11", "10.0.0.12")
	kills, consoles := map[string]func(){}, map[string]*shop.Console{}
	startNginx := func(machine string) {
		dir := t.TempDir()
		cmd, _ := shop.NginxCommand(t, nginx, dir, strings.NewReplacer("/var/cache/nginx/stampede", dir+"/cache", "/var/log/nginx", dir).Replace(packagingRead(t, "platform/edge/nginx/stampede.conf")))
		kills[machine], _ = n.start(machine, cmd.Args...)
	}
	conf := strings.Replace(packagingRead(t, "platform/edge/nginx/keepalived.conf"), "/usr/bin/curl", curl, 1)
	second := strings.NewReplacer("priority 150", "priority 100", "unicast_src_ip 10.0.0.1\n", "unicast_src_ip 10.0.0.2\n", "        10.0.0.2\n", "        10.0.0.1\n").Replace(conf)
	for i, machine := range []string{"first", "second"} {
		n.machine(machine, fmt.Sprint("10.0.0.", i+1))
		startNginx(machine)
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(dir+"/conf", []byte([]string{conf, second}[i]), 0o600))
		_, consoles[machine] = n.start(machine, keepalived, "-n", "-l", "-D", "-f", dir+"/conf", "-p", dir+"/pid", "-r", dir+"/vrrp", "-c", dir+"/checkers")
	}
	program := filepath.Join(t.TempDir(), "stampede")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nexec ip netns exec "+n.prefix+"shop "+shop.ImageProgram(t)+` "$@"`), 0o755)) //nolint:gosec // a program
	shop.ServeWith(t, program, databaseURL, redisURL, "--listen=:8080", "--practice", "--trusted-proxies=10.0.0.1,10.0.0.2", "--easy-paths-per-address=0", "--shoppers-per-address=0")

	ask := func(method, path, token, body string) (doc map[string]any) {
		out, err := n.command("client", curl, "-s", "--connect-timeout", "0.3", "-m", "2", "-X", method, "--json", body, "-H", "Authorization: Bearer "+token, "http://10.0.0.100/api/v1/"+path).Output()
		if err != nil || json.Unmarshal(out, &doc) != nil {
			return nil // no answer, or nginx's own
		}
		return doc
	}
	operator := shop.Mint(t, 1, auth.Operator)
	const shoppers = 130
	var activity struct {
		Sessions []struct{ Items []struct{ ID string } }
	}
	pgtest.Eventually(t, 30*time.Second, func() bool {
		opens := time.Now().Add(500 * time.Millisecond)
		doc, err := json.Marshal(ask(http.MethodPut, "admin/activities/by-external-id/sale", operator, fmt.Sprintf(`{"name":"Sale","publish":true,"starts_at":%[1]q,"ends_at":%[2]q,
			"sessions":[{"external_id":"s","name":"All day","opens_at":%[1]q,"closes_at":%[2]q,"items":[{"external_id":"i","sku":"a","title":"Phone","stock":%[3]d,
			"list_price":{"amount":200,"currency":"CNY"},"sale_price":{"amount":100,"currency":"CNY"}}]}]}`,
			opens.Format(time.RFC3339Nano), opens.Add(time.Hour).Format(time.RFC3339Nano), shoppers+1))["activity"])
		return err == nil && json.Unmarshal(doc, &activity) == nil && len(activity.Sessions) == 1
	}, "the address to answer")
	item := activity.Sessions[0].Items[0].ID
	mine := ask(http.MethodPost, "items/"+item+"/rush-path", shop.Mint(t, 1001, auth.Shopper), `{"quantity":1}`)
	rushed := func() bool {
		no := ask(http.MethodPost, fmt.Sprint("rush/", mine["path"]), "", "")["order_no"]
		return no != nil && no == mine["order_no"]
	}
	pgtest.Eventually(t, 30*time.Second, rushed, "the opening")

	// A crowd that goes on through both moves.
	log := filepath.Join(t.TempDir(), "client.jsonl")
	crowd := n.command("client", append([]string{
		shop.ImageProgram(t), "rush", "--item=" + item, "--shoppers=" + strconv.Itoa(shoppers), "--rate=25", "--conns=16", "--sockets=0", "--pay=0%", "--json",
		"--url=http://10.0.0.100", "--signing-key=" + shop.Key, "--log=" + log,
	}, stores...)...)
	out := shop.NewConsole()
	crowd.Stdout, crowd.Stderr = out, t.Output()
	require.NoError(t, crowd.Start())
	ended := make(chan error, 1)
	go func() { ended <- crowd.Wait() }()
	t.Cleanup(func() { _ = crowd.Process.Kill() }) // it may have ended
	pgtest.Eventually(t, 30*time.Second, func() bool {
		books, _ := ask(http.MethodGet, "admin/items/"+item+"/funnel", operator, "")["books"].(map[string]any)
		remaining, ok := books["remaining"].(float64)
		return ok && remaining < shoppers // the crowd has a unit
	}, "the crowd to rush")

	// What answers afterwards can only be the other machine.
	moves := func(why string, fail func()) {
		t.Helper()
		began := time.Now()
		fail()
		pgtest.Eventually(t, 30*time.Second, rushed, "the same answer after "+why)
		t.Logf("%s: answered again after %s", why, time.Since(began).Round(10*time.Millisecond))
	}
	holder, other := "first", "second"
	if n.has(other) {
		holder, other = other, holder
	}
	moves("nginx was killed", kills[holder])
	startNginx(holder)
	consoles[holder].Await(t, `(?s)FAULT STATE.*BACKUP STATE`, 30*time.Second, nil)
	moves("the machine was cut off", func() { n.ip("", "-n", n.prefix+"net", "link", "set", other, "nomaster") })

	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("the crowd did not end")
	}
	var report struct {
		Answers     map[string]int64
		BooksProved bool `json:"books_proved"`
	}
	require.NoError(t, json.Unmarshal([]byte(out.String()), &report))
	require.Equal(t, "answers to the crowd", report.Answers, map[string]int64{"queued": shoppers})
	require.Equal(t, "the books are proved", report.BooksProved, true)
	shop.Command(t, 0, append([]string{"verify", "--client-log=" + log}, stores...)...)
}

// TestPackagingKeepalivedReads lets keepalived itself read both files: it prints a sentence for each line that it does not
// know, and none for a good file, even without ip_vs.
func TestPackagingKeepalivedReads(t *testing.T) {
	t.Parallel()
	keepalived := tooltest.Command(t, "keepalived")
	read := func(spoil string) string {
		file := filepath.Join(t.TempDir(), "conf")
		ipvs := strings.Replace(packagingRead(t, "platform/edge/nginx/ip_vs.conf"), "lb_algo", spoil, 1)
		require.NoError(t, os.WriteFile(file, []byte(packagingRead(t, "platform/edge/nginx/keepalived.conf")+ipvs), 0o600))
		cmd := exec.CommandContext(t.Context(), keepalived, "-t", "-f", file) //nolint:gosec // found above
		out, _ := cmd.CombinedOutput()                                        // version 2.2.7 ends with SIGTERM in any case
		// It also looks whether this machine has the script's program, at a place that only root writes.
		return strings.ReplaceAll(string(out), "Disabling track script nginx_answers due to insecure\n", "")
	}
	require.Contains(t, "of a wrong file", read("lb_algorithm"), "Unknown keyword 'lb_algorithm'")
	require.Equal(t, "of the examples", read("lb_algo"), "")
	// No test runs ip_vs.conf. keepalived ends at it where the kernel has no ip_vs, so it is a file of its own.
	require.Equal(t, "keepalived.conf has a virtual server", strings.Contains(packagingRead(t, "platform/edge/nginx/keepalived.conf"), "\nvirtual_server"), false)
	const asks = " 0 {\n        weight 1\n        HTTP_GET {\n            url {\n                path /nginx-answers\n                virtualhost sale.example.com\n"
	require.Contains(t, "ip_vs.conf", packagingRead(t, "platform/edge/nginx/ip_vs.conf"), "-d 10.0.0.100 ", "--dports 80,443 ", "--set-mark 100\n", "virtual_server fwmark 100 {",
		"lb_kind DR", "real_server 10.0.0.1"+asks, "real_server 10.0.0.2"+asks)
}

// network is machines on one switch, each a network namespace with its interface eth0.
type network struct {
	t      *testing.T
	prefix string // of the namespaces' names, with the id of this process
}

const networks = "stampede-test-"

// newNetwork also removes networks of tests that were killed.
func newNetwork(t *testing.T) network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("this test needs root for network namespaces")
	}
	tooltest.Command(t, "ip")
	n := network{t, fmt.Sprint(networks, os.Getpid(), "-")}
	n.remove(func(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
	t.Cleanup(func() { n.remove(func(pid int) bool { return pid == os.Getpid() }) })
	for _, args := range []string{"netns add " + n.prefix + "net", "-n " + n.prefix + "net link add switch type bridge", "-n " + n.prefix + "net link set switch up"} {
		if out, err := exec.CommandContext(t.Context(), "ip", strings.Fields(args)...).CombinedOutput(); err != nil { //nolint:gosec // the lines above
			t.Skipf("this test needs a kernel with network namespaces and bridges, and the right to make them: ip %s: %s", args, out)
		}
	}
	return n
}

// remove ends the processes in the namespaces of test processes, and deletes them with all of their links.
func (n network) remove(of func(pid int) bool) {
	list, _ := exec.Command("ip", "netns", "list").Output() //nolint:noctx // also after the test
	for line := range strings.Lines(string(list)) {
		name := strings.Fields(line)[0]
		owner, _, _ := strings.Cut(strings.TrimPrefix(name, networks), "-")
		if pid, err := strconv.Atoi(owner); err != nil || !strings.HasPrefix(name, networks) || !of(pid) {
			continue
		}
		pids, _ := exec.Command("ip", "netns", "pids", name).Output() //nolint:gosec,noctx // likewise
		for text := range strings.FieldsSeq(string(pids)) {
			if pid, err := strconv.Atoi(text); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
		if out, err := exec.Command("ip", "netns", "delete", name).CombinedOutput(); err != nil { //nolint:gosec,noctx // likewise
			n.t.Logf("ip netns delete %s: %s", name, out)
		}
	}
}

// ip runs one command, or lines of commands.
func (n network) ip(lines string, args ...string) string {
	n.t.Helper()
	if lines != "" {
		args = append(args, "-batch", "-")
	}
	cmd := exec.CommandContext(n.t.Context(), "ip", args...) //nolint:gosec // the test's own
	cmd.Stdin = strings.NewReader(lines)
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("ip %s: %v\n%s%s", strings.Join(args, " "), err, lines, out)
	}
	return string(out)
}

// machine adds one with addresses to the switch.
func (n network) machine(name string, addresses ...string) {
	n.t.Helper()
	n.ip("", "netns", "add", n.prefix+name)
	n.ip("link add "+name+" type veth peer name eth0 netns "+n.prefix+name+"\nlink set "+name+" master switch up", "-n", n.prefix+"net")
	lines := "link set lo up\nlink set eth0 up\n"
	for _, address := range addresses {
		lines += "address add " + address + "/24 dev eth0\n"
	}
	n.ip(lines, "-n", n.prefix+name)
}

// has reports whether a machine has the shop's address.
func (n network) has(machine string) bool {
	n.t.Helper()
	return strings.Contains(n.ip("", "-n", n.prefix+machine, "address"), " 10.0.0.100/")
}

func (n network) command(machine string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", n.prefix + machine}, args...)...) //nolint:gosec,noctx // the test's own, which it ends
}

// start starts a program on a machine. kill ends it and its children, as the test's end does.
func (n network) start(machine string, args ...string) (kill func(), out *shop.Console) {
	n.t.Helper()
	cmd, out := n.command(machine, args...), shop.NewConsole()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second // for a child that is left, until its namespace is removed
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(n.t, cmd.Start())
	kill = func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // it may have ended
	n.t.Cleanup(func() {
		kill()
		_ = cmd.Wait() // killed
		if n.t.Failed() {
			n.t.Logf("%s on %s printed:\n%s", args[0], machine, out)
		}
	})
	return kill, out
}
