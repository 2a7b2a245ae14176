// Package race is what differs in a build with the race detector.
package race

// Cache returns the size of a cache's buffer, in bytes: that given, or an eighth in a
// race build, where an entry may be an eighth as long, too. There a buffer costs three times its size when it is made, because the
// detector marks all of it, and the tests start a server some hundred and fifty times.
func Cache(bytes int) int {
	if Enabled {
		return bytes / 8
	}
	return bytes
}
