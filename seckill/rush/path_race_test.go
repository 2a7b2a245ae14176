//go:build race

package rush

// raceEnabled is true where sync.Pool drops entries on purpose, so that counts
// of allocations mean nothing.
const raceEnabled = true
