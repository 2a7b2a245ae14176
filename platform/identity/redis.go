package identity

import (
	"slices"

	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/humancheck"
)

// RedisKeys are the prefixes of the wing's keys.
var RedisKeys = slices.Concat(ratelimit.RedisKeys, guard.RedisKeys, humancheck.RedisKeys)
