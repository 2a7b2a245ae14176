package seckill

import (
	"slices"

	"stampede/seckill/browse"
	"stampede/seckill/reservation"
	"stampede/seckill/risk"
	"stampede/seckill/rush"
)

// RedisKeys are the prefixes of the module's keys.
var RedisKeys = slices.Concat(browse.RedisKeys, rush.RedisKeys, reservation.RedisKeys, risk.RedisKeys)
