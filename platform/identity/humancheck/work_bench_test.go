package humancheck

import (
	"strconv"
	"strings"
	"testing"
)

// BenchmarkWork measures one hash of a proof of work in a native program;
// 2^difficulty of them are needed on average.
func BenchmarkWork(b *testing.B) {
	text := []byte(strings.Repeat("A", ticketTextBytes) + ".")
	start, n := len(text), uint64(0)
	for b.Loop() {
		text = strconv.AppendUint(text[:start], n, 10)
		zeroBits(text)
		n++
	}
}
