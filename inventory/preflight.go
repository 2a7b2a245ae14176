package inventory

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"stampede/platform/base/fault"
	"stampede/platform/watch/preflight"
)

const (
	// decisionsPerSecond is what one Redis node decides in a second of its processor, by BenchmarkShards, less a fifth.
	decisionsPerSecond = 200_000
	// attemptsPerUnit is how many attempts for each unit reach Redis at most: the rush refuses the rest from memory.
	attemptsPerUnit = 3
)

// Preflight says whether one Redis node can decide on a sale, or its units should be spread over several.
func (s *Service) Preflight() []preflight.Check {
	return []preflight.Check{{
		Code: "stock-shards", Titles: fault.T("Stock shards", "库存分片"),
		Next: fault.T("Set --stock-shards to the number of masters of the Redis Cluster if one node is too slow for the sale, else to 1. It takes effect when the item is loaded next.",
			"若单个 Redis 节点不够快，请将 --stock-shards 设为 Redis Cluster 的主节点数，否则设为 1。下次预热商品时生效。"),
		Look: func(ctx context.Context, need preflight.Need) ([]preflight.Finding, error) {
			nodes, err := mastersOf(ctx, s.store.Redis)
			if err != nil {
				return nil, err
			}
			return shardsFound(s.store.StockShards, nodes, need), nil
		},
	}}
}

// shardsFound compares what a sale asks of Redis with what its nodes do.
func shardsFound(shards, nodes int, need preflight.Need) []preflight.Finding {
	decisions := need.Units * attemptsPerUnit
	if need.Shoppers > 0 {
		decisions = min(decisions, int64(need.Shoppers))
	}
	f := preflight.Finding{Level: preflight.OK, Subject: "Redis"}
	switch {
	case shards > 1 && nodes == 1:
		f.Level, f.Found = preflight.Warning, fault.T("The units of large items are spread over {shards} shards, and there is one Redis node.",
			"大件数商品的库存分为 {shards} 片，但只有一个 Redis 节点。", "shards", shards)
	case decisions > decisionsPerSecond && shards == 1:
		f.Level, f.Found = preflight.Warning, fault.T("Up to {decisions} attempts at the opening reach one Redis node, which decides about {rate} a second.",
			"开抢时最多 {decisions} 次抢购到达同一个 Redis 节点，其每秒约处理 {rate} 次。", "decisions", decisions, "rate", decisionsPerSecond)
	default:
		f.Found = fault.T("Up to {decisions} attempts at the opening reach Redis; a node decides about {rate} a second, and an item has up to {shards} shards.",
			"开抢时最多 {decisions} 次抢购到达 Redis；每个节点每秒约处理 {rate} 次，每件商品最多 {shards} 个分片。",
			"decisions", decisions, "rate", decisionsPerSecond, "shards", shards)
	}
	return []preflight.Finding{f}
}

// mastersOf counts the nodes that share the keys.
func mastersOf(ctx context.Context, rdb redis.UniversalClient) (int, error) {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		return 1, nil
	}
	var n atomic.Int32
	err := cluster.ForEachMaster(ctx, func(context.Context, *redis.Client) error { n.Add(1); return nil })
	return int(n.Load()), err //nolint:wrapcheck // it is a line of the preflight
}
