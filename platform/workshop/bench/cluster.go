package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/store/bus/natsserver"
	"stampede/platform/workshop/embedded"
	"stampede/platform/workshop/freeport"
)

const (
	// clusterNodes is the size of both clusters, the fewest that survive the loss of one.
	clusterNodes = 3
	// clusterPatience bounds the start of a cluster: NATS elects a first leader within nine seconds.
	clusterPatience = time.Minute
	slotsOfRedis    = 16384
	loopback        = "127.0.0.1"
	// leastPort and mostPort bound the ports of both clusters.
	leastPort, mostPort = 7_000, 10_000
)

// startRedisCluster starts masters in a folder, with the durability of the single Redis, as children of this process.
// stop ends them.
func startRedisCluster(ctx context.Context, folder string) (url string, stop func(), err error) {
	programs, err := embedded.Find()
	if err != nil {
		return "", nil, err
	}
	ports, err := freeport.Find(ctx, 2*clusterNodes, leastPort, mostPort)
	if err != nil {
		return "", nil, err
	}
	var running []*exec.Cmd
	stop = func() {
		for _, cmd := range running {
			_ = cmd.Process.Kill() // its data is deleted with the folder
			_ = cmd.Wait()
		}
	}
	defer func() {
		if err != nil {
			stop()
		}
	}()
	ids := func(i int) string { return fmt.Sprintf("%040x", i+1) }
	var addresses []string
	for me := range clusterNodes {
		dir := filepath.Join(folder, "redis-"+strconv.Itoa(me))
		// The file in which a node keeps what it knows of the others, as if they had met.
		var known strings.Builder
		for i := range clusterNodes {
			myself := map[bool]string{true: "myself,"}[i == me]
			fmt.Fprintf(&known, "%s %s:%d@%d %smaster - 0 0 %d connected %d-%d\n", ids(i), loopback, ports[i], ports[clusterNodes+i], myself, i+1,
				i*slotsOfRedis/clusterNodes, (i+1)*slotsOfRedis/clusterNodes-1)
		}
		fmt.Fprintf(&known, "vars currentEpoch %d lastVoteEpoch 0\n", clusterNodes)
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "nodes.conf"), []byte(known.String()), 0o600)); err != nil {
			return "", stop, fmt.Errorf("bench: prepare a Redis node: %w", err)
		}
		cmd := exec.Command(programs.Redis, //nolint:gosec,noctx // the program found above; stop ends it
			"--dir", dir, "--bind", loopback, "--port", strconv.Itoa(ports[me]), "--cluster-port", strconv.Itoa(ports[clusterNodes+me]),
			"--cluster-enabled", "yes", "--appendonly", "yes", "--appendfsync", "always", "--save", "", "--logfile", filepath.Join(dir, "log"),
			"--maxmemory", strconv.Itoa(redisMemoryBytes), "--maxmemory-policy", "noeviction")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			return "", stop, fmt.Errorf("bench: start a Redis node: %w", err)
		}
		running, addresses = append(running, cmd), append(addresses, loopback+":"+strconv.Itoa(ports[me]))
	}
	ctx, cancel := context.WithTimeout(ctx, clusterPatience)
	defer cancel()
	for _, address := range addresses {
		node := redis.NewClient(&redis.Options{Addr: address})
		err := until(ctx, func() (bool, error) {
			return strings.Contains(node.ClusterInfo(ctx).Val(), "cluster_state:ok"), nil // an error while it starts
		})
		if err = errors.Join(err, node.Close()); err != nil {
			return "", stop, fmt.Errorf("bench: the Redis cluster did not become whole: %w", err)
		}
	}
	return "redis-cluster://" + strings.Join(addresses, ","), stop, nil
}

// serveNATS is a child that runs one NATS server of a cluster until its input ends.
func serveNATS(in io.Reader) error {
	input := json.NewDecoder(in)
	var node natsserver.Node
	if err := input.Decode(&node); err != nil {
		return fmt.Errorf("bench: read the NATS server's settings: %w", err)
	}
	return node.Serve(io.MultiReader(input.Buffered(), in))
}

// startNATSCluster starts the servers and returns their URL when they can store three copies.
func (r *Rig) startNATSCluster(ctx context.Context) (url string, err error) {
	ports, err := freeport.Find(ctx, 2*clusterNodes, leastPort, mostPort)
	if err != nil {
		return "", err
	}
	var urls []string
	for i := range clusterNodes {
		name := "nats-" + strconv.Itoa(i)
		child, err := r.spawn(ctx, nameNATS, PartCommand, natsPartName)
		if err != nil {
			return "", err
		}
		node := natsserver.Node{Name: name, Dir: filepath.Join(r.stores.Folder, name), Port: ports[i], RoutePort: ports[clusterNodes+i], Routes: ports[clusterNodes:], Synced: true}
		if err := child.Tell(node); err != nil {
			return "", err
		}
		urls = append(urls, fmt.Sprintf("nats://%s:%d", loopback, ports[i]))
	}
	url = strings.Join(urls, ",")
	ctx, cancel := context.WithTimeout(ctx, clusterPatience)
	defer cancel()
	return url, natsserver.AwaitCopies(ctx, url, clusterNodes)
}
