//go:build !race

package rush

const raceEnabled = false
