package seckill

import (
	"slices"

	"stampede/seckill/browse"
	"stampede/seckill/reservation"
)

// RedisKeys are the prefixes of the module's keys.
var RedisKeys = slices.Concat(browse.RedisKeys, reservation.RedisKeys)
